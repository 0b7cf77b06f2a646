"""`hept-data build tracking`: TrackML events to a dataset."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from hepdata.errors import InputError
from hepdata.features.sectors import Sectors
from hepdata.features.tracking import CloudChoice
from hepdata.pipeline.tracking import TRACKING_PRESETS, PairChoice, TrackingConfig, open_tracking

from .build_options import BuildOptions, build_options, run_build


@click.command("tracking", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("raw", type=click.Path(path_type=Path))
@click.argument("out")
@click.option(
    "--detectors",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Modules of the detector.  [default: detectors.csv or .csv.gz beside the events]",
)
@click.option(
    "--preset",
    type=click.Choice(list(TRACKING_PRESETS)),
    default="tracking-60k",
    show_default=True,
    help="Whole events, or ten overlapping φ sectors; other options change single settings.",
)
@click.option("--events", metavar="FIRST-LAST", help="Only events with these ids, inclusive.")
@click.option("--max-events", type=click.IntRange(1), help="At most this many events, lowest ids first.")
@click.option("--layers", type=click.Choice(["pixel", "all"]), help="Detector layers.  [default: pixel]")
@click.option(
    "--noise/--no-noise", "keep_noise", default=None, help="Keep hits of no particle.  [default: noise]"
)
@click.option("--pt-threshold", type=float, help="Noted in the manifest, in GeV.  [default: 0.9]")
@click.option("--pt-cut", is_flag=True, help="Also drop the hits of particles below the threshold.")
@click.option("--sectors", "n_sectors", type=click.IntRange(1), help="φ sectors an event is divided into.")
@click.option("--sector-overlap", type=float, help="Factor on the slope of a sector's edges.  [default: 1.3]")
@click.option(
    "--pairs",
    "definition",
    type=click.Choice(["paper", "published", "none"]),
    help="Definition of the pair lists.  [default: paper]",
)
@click.option("--negatives", "n_negatives", type=click.IntRange(1), help="Negatives a point.  [default: 256]")
@click.option("--radius", type=float, help="Reach of neighbours, --pairs published only.  [default: 1]")
@click.option("--no-cell-features", is_flag=True, help="Build without cluster shapes; cells are not read.")
@click.option(
    "--unlabelled", is_flag=True, help="Ignore truth and particles, as in an event to be predicted."
)
@build_options
def command(
    raw: Path,
    out: str,
    detectors: Path | None,
    preset: str,
    events: str | None,
    max_events: int | None,
    layers: Literal["pixel", "all"] | None,
    keep_noise: bool | None,
    pt_threshold: float | None,
    pt_cut: bool,
    n_sectors: int | None,
    sector_overlap: float | None,
    definition: Literal["paper", "published", "none"] | None,
    n_negatives: int | None,
    radius: float | None,
    no_cell_features: bool,
    unlabelled: bool,
    options: BuildOptions,
) -> None:
    """Build a dataset from the TrackML events in the folder or zip RAW, in the new folder or URL OUT.

    Hits become points with positions, cluster shapes, labels and contrastive pairs. Events without truth give
    an unlabelled dataset. Stopped at any moment, the same command continues.

    \b
    Example:
      hept-data build tracking raw tracking --detectors raw/detectors.csv --workers 2
      hept-data build tracking raw tracking-6k --preset tracking-6k --pairs published
    """
    config = TRACKING_PRESETS[preset]
    pt_threshold = config.pt_threshold if pt_threshold is None else pt_threshold
    config = TrackingConfig(
        clouds=replace(
            config.clouds,
            layers=layers or config.clouds.layers,
            keep_noise=config.clouds.keep_noise if keep_noise is None else keep_noise,
            min_pt=pt_threshold if pt_cut else None,
            has_cell_features=not no_cell_features,
            sectors=_choose_sectors(config.clouds, n_sectors, sector_overlap),
        ),
        pairs=_choose_pairs(config.pairs, definition, n_negatives, radius),
        pt_threshold=pt_threshold,
    )
    first, last = _parse_range(events)
    source = open_tracking(
        raw,
        config,
        detectors=detectors,
        first_event=first,
        last_event=last,
        max_events=max_events,
        ignore_truth=unlabelled,
    )
    _check_truth(source.config, definition, keep_noise, pt_cut)
    run_build(source, out, options, "Tracking dataset")


def _choose_sectors(choice: CloudChoice, n_sectors: int | None, overlap: float | None) -> Sectors:
    sectors = choice.sectors
    if n_sectors is not None and n_sectors != sectors.n_sectors:
        if n_sectors == 2:
            raise InputError(
                "--sectors",
                found="2",
                expected="1 or at least 3: half circles have no edges with a slope",
                remedy="give another number of sectors",
            )
        # The published edges belong to the published ten sectors; any other number gets exact ones.
        sectors = Sectors(n_sectors=n_sectors, overlap=sectors.overlap)
    if overlap is not None:
        if not 1.0 <= overlap < 10.0:
            raise InputError(
                "--sector-overlap",
                found=str(overlap),
                expected="a factor from 1 (no overlap) to 10",
                remedy="give such a factor",
            )
        sectors = replace(sectors, overlap=overlap)
    return sectors


def _choose_pairs(
    choice: PairChoice,
    definition: Literal["paper", "published", "none"] | None,
    n_negatives: int | None,
    radius: float | None,
) -> PairChoice:
    definition = definition or choice.definition
    if radius is not None and (definition != "published" or not 0 < radius < float("inf")):
        raise InputError(
            "--radius",
            found=f"{radius} with --pairs {definition}",
            expected="a positive number, with --pairs published",
            remedy="leave it out: the paper's negatives are the nearest, however far",
        )
    return PairChoice(
        definition, n_negatives or choice.n_negatives, choice.radius if radius is None else radius
    )


def _parse_range(events: str | None) -> tuple[int | None, int | None]:
    if events is None:
        return None, None
    match = re.fullmatch(r"(\d+)(?:-(\d*))?", events)
    if match is None or (match[2] and int(match[2]) < int(match[1])):
        raise InputError(
            "--events",
            found=repr(events),
            expected="FIRST-LAST like 1000-1099, FIRST- for all from there, or one id",
            remedy="give a range of event ids",
        )
    first = int(match[1])
    if match[2] is None:
        return first, first
    return first, int(match[2]) if match[2] else None


def _check_truth(
    config: TrackingConfig, definition: str | None, keep_noise: bool | None, pt_cut: bool
) -> None:
    if config.clouds.is_labelled:
        return
    wants = {
        f"--pairs {definition}": definition in ("paper", "published"),
        "--no-noise": keep_noise is False,
        "--pt-cut": pt_cut,
    }
    asked = [name for name, is_asked in wants.items() if is_asked]
    if asked:
        raise InputError(
            asked[0],
            found="events without truth",
            expected="truth and particles files, which say what belongs together",
            remedy=f"leave {asked[0]} out to build an unlabelled dataset",
        )
