"""The configuration of a tracking build: a preset with changes of single settings."""

from __future__ import annotations

from dataclasses import replace

from hepdata.errors import InputError, find_preset
from hepdata.features.hit_clouds import CloudChoice
from hepdata.features.layers import parse_layers
from hepdata.features.sectors import Sectors
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, PairChoice, PairDefinition, TrackingConfig


def choose_tracking(
    preset: str = "tracking-60k",
    *,
    layers: str | None = None,
    noise: bool | None = None,
    min_pt: float | None = None,
    sectors: int | None = None,
    sector_overlap: float | None = None,
    pairs: PairDefinition | None = None,
    negatives: int | None = None,
    radius: float | None = None,
    cell_features: bool = True,
) -> TrackingConfig:
    """A preset with single settings replaced; None keeps that of the preset.

    See `hepdata.build_tracking` for the arguments.

    Raises:
        InputError: No such preset, or a value that does not fit.
    """
    config = find_preset(TRACKING_PRESETS, preset)
    return TrackingConfig(
        clouds=replace(
            config.clouds,
            layers=config.clouds.layers if layers is None else parse_layers(layers),
            keep_noise=config.clouds.keep_noise if noise is None else noise,
            min_pt=config.clouds.min_pt if min_pt is None else min_pt,
            has_cell_features=cell_features,
            sectors=_choose_sectors(config.clouds, sectors, sector_overlap),
        ),
        pairs=choose_pairs(config.pairs, pairs, negatives, radius),
    )


def _choose_sectors(choice: CloudChoice, n_sectors: int | None, overlap: float | None) -> Sectors:
    sectors = choice.sectors
    if n_sectors is not None and n_sectors != sectors.n_sectors:
        if n_sectors == 2:
            raise InputError(
                "`sectors`",
                found="2",
                expected="1 or at least 3: the edges of half circles have no slope",
                remedy="give another number of sectors",
            )
        # The published edges belong to the published ten sectors; any other number gets exact ones.
        sectors = Sectors(n_sectors=n_sectors, overlap=sectors.overlap)
    if overlap is not None:
        if not 1.0 <= overlap < 10.0:
            raise InputError(
                "`sector_overlap`",
                found=str(overlap),
                expected="a factor from 1 (no overlap) to 10",
                remedy="give a factor in this range",
            )
        sectors = replace(sectors, overlap=overlap)
    return sectors


def choose_pairs(
    choice: PairChoice,
    definition: PairDefinition | None,
    n_negatives: int | None,
    radius: float | None,
) -> PairChoice:
    """Pairs with single settings replaced; None keeps those of `choice`.

    Raises:
        InputError: A radius that does not fit.
    """
    definition = definition or choice.definition
    if radius is not None and (definition != "published" or not 0 < radius < float("inf")):
        raise InputError(
            "`radius`",
            found=f"{radius} with `pairs={definition!r}`",
            expected="a positive number, with `pairs='published'`",
            remedy="omit it: the paper's negatives are the nearest points at any distance",
        )
    return PairChoice(
        definition, n_negatives or choice.n_negatives, choice.radius if radius is None else radius
    )


def check_truth(config: TrackingConfig, pairs: str | None, noise: bool | None, min_pt: float | None) -> None:
    """Check that nothing was requested that needs truth, if the events have none.

    Raises:
        InputError: Such a request.
    """
    if config.clouds.is_labelled:
        return
    wants = {
        f"`pairs={pairs!r}`": pairs in ("paper", "published"),
        "`noise=False`": noise is False,
        f"`min_pt={min_pt}`": min_pt is not None,
    }
    asked = [name for name, is_asked in wants.items() if is_asked]
    if asked:
        raise InputError(
            asked[0],
            found="events without truth",
            expected="truth and particles files",
            remedy=f"leave {asked[0]} out to build an unlabelled dataset",
        )
