"""`hept-data build tracking`: TrackML, ACTS or ColliderML events to a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.building import build_tracking
from hepdata.pipeline.tracking_source import TRACKING_PRESETS

from .build_options import build_options, point_options, report_build


@click.command("tracking", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("raw", type=click.Path(path_type=Path))
@click.argument("out")
@click.option(
    "--detectors",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Modules of the detector.  [default: detectors.csv or .csv.gz next to the events]",
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
@click.option(
    "--layers",
    metavar="NAME",
    help="pixel, pixel+strip, all (as the source numbers them), or a YAML list.  [default: pixel]",
)
@click.option("--noise/--no-noise", default=None, help="Keep hits without a particle.  [default: noise]")
@click.option("--min-pt", type=float, help="Drop the hits of particles below this pT in GeV; noise is kept.")
@click.option("--sectors", type=click.IntRange(1), help="φ sectors an event is divided into.")
@click.option("--sector-overlap", type=float, help="Factor on the slope of a sector's edges.  [default: 1.3]")
@click.option(
    "--pairs",
    type=click.Choice(["paper", "published", "none"]),
    help="Definition of the pair lists.  [default: paper]",
)
@click.option("--negatives", type=click.IntRange(1), help="Negatives per point.  [default: 256]")
@click.option(
    "--radius", type=float, help="Largest distance of neighbours, --pairs published only.  [default: 1]"
)
@click.option(
    "--no-cell-features",
    "cell_features",
    flag_value=False,
    default=True,
    help="Build without cluster shapes; cells are not read.",
)
@click.option(
    "--unlabelled", is_flag=True, help="Ignore truth and particles, as in an event to be predicted."
)
@point_options
@click.option(
    "--relabel",
    is_flag=True,
    help="With --select: count n_hits, n_layers_hit and is_reconstructable among the kept points.",
)
@build_options
def command(raw: Path, out: str, json_path: Path | None, **arguments: Any) -> None:
    """Build a dataset from the tracking events in RAW, in the new folder or URL OUT.

    RAW is a folder or zip of TrackML events or of ACTS' CSV files, or a folder of ColliderML's Parquet files.
    Hits become points with positions, cluster shapes (not ColliderML), labels and contrastive pairs. Events
    without truth give an unlabelled dataset. Stopped at any moment, the same command continues.

    \b
    Example:
      hept-data build tracking raw tracking --detectors raw/detectors.csv --workers 2
      hept-data build tracking raw tracking-6k --preset tracking-6k --pairs published
    """
    report_build(build_tracking(raw, out, **arguments, progress=True), "Tracking dataset", json_path)
