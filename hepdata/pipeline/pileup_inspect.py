"""What a Delphes file contains for a pileup dataset: branches, presets, labels, counts of one event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hepdata.errors import HeptError, InputError
from hepdata.features.pileup import PileupCuts, make_clouds
from hepdata.readers.delphes import TreeSurvey, count_entries, open_tree, survey_tree
from hepdata.readers.delphes_branches import BranchMap
from hepdata.readers.delphes_events import read_range
from hepdata.readers.delphes_presets import AUTOMATIC, Fit, choose_branches, try_presets
from hepdata.readers.delphes_survey import MOST_EVENTS, check_counts, check_labelled, count_labels


@dataclass(frozen=True)
class FitReport:
    """A preset against the file.

    Attributes:
        preset: Its name.
        reason: Why it does not fit, "" where it does.
        leaves: What is read, by branch.
        computed: Quantities that no leaf has and that are computed.
        labels: Rule of every branch; None if it has none.
        label_reason: Why a training dataset cannot be made, "" where it can.
    """

    preset: str
    reason: str
    leaves: Mapping[str, tuple[str, ...]]
    computed: tuple[str, ...]
    labels: Mapping[str, str | None]
    label_reason: str


@dataclass(frozen=True)
class EventReport:
    """One event through the chosen preset."""

    entry: int
    n_points: int
    n_dropped: int
    n_charged: int
    n_scored: int
    n_leading: int | None
    n_scored_leading: int | None


@dataclass(frozen=True)
class Inspection:
    """Everything that `hept-data inspect` shows.

    Attributes:
        survey: The tree.
        n_in_event: Objects in the event, by branch.
        fits: All presets.
        chosen: The preset that "auto" takes, None where none fits.
        event: The event through it.
    """

    survey: TreeSurvey
    n_in_event: Mapping[str, int]
    fits: tuple[FitReport, ...]
    chosen: str | None
    event: EventReport | None


def inspect_file(location: str, *, entry: int = 0, branches: str = AUTOMATIC) -> Inspection:
    """Look at a file and at one of its events.

    Raises:
        InputError: The file cannot be read, or has no such event.
    """
    survey = survey_tree(location)
    if survey.n_events and not 0 <= entry < survey.n_events:
        raise InputError(
            location,
            found=f"{survey.n_events} events",
            expected=f"an event {entry}",
            remedy=f"choose `event` between 0 and {survey.n_events - 1}",
        )
    fits = try_presets(survey.contents, survey.classes)
    chosen: BranchMap | None = None
    if branches != AUTOMATIC or any(fit.branches for fit in fits):
        chosen = choose_branches(branches, survey.contents, survey.classes, location)
        if chosen.name not in [fit.preset for fit in fits]:
            fits = [*fits, Fit(chosen.name, chosen)]
    with open_tree(location) as tree:
        counts = count_entries(tree, survey.contents, entry, location) if survey.n_events else {}
    return Inspection(
        survey=survey,
        n_in_event=counts,
        fits=tuple(_report_fit(fit, survey) for fit in fits),
        chosen=None if chosen is None else chosen.name,
        event=_report_event(location, chosen, entry) if chosen is not None and survey.n_events else None,
    )


def _report_fit(fit: Fit, survey: TreeSurvey) -> FitReport:
    if fit.branches is None:
        return FitReport(fit.preset, fit.reason, {}, (), {}, fit.reason)
    quantities = ("px", "py", "energy", "rapidity")
    computed = {name for item in fit.branches.collections for name in quantities if name not in item.leaves}
    return FitReport(
        preset=fit.preset,
        reason="",
        leaves={item.branch: tuple(item.leaves.values()) for item in fit.branches.collections},
        computed=tuple(name for name in quantities if name in computed),
        labels={item.branch: item.label for item in fit.branches.collections},
        label_reason=_judge_labels(fit.branches, survey),
    )


def _judge_labels(branches: BranchMap, survey: TreeSurvey) -> str:
    try:
        check_labelled(branches, survey.location)
        counts = count_labels(survey.location, branches, survey.contents, MOST_EVENTS)
        check_counts(counts, branches, survey.location)
    except InputError as error:
        return error.found
    return ""


def _report_event(location: str, branches: BranchMap, entry: int) -> EventReport:
    with open_tree(location) as tree:
        table = read_range(tree, branches, entry, entry + 1, labelled=branches.is_labelled, where=location)
    clouds = next(make_clouds(table, entry, PileupCuts(), location))
    if isinstance(clouds, HeptError):
        raise clouds
    n_read = int(table.offsets[-1])
    if not clouds:
        return EventReport(entry, 0, n_read, 0, 0, None, None)
    columns = clouds[0].columns
    is_leading = columns.get("is_leading")
    return EventReport(
        entry=entry,
        n_points=clouds[0].n_points,
        n_dropped=n_read - clouds[0].n_points,
        n_charged=int(np.sum(columns["charge"] != 0)),
        n_scored=int(np.sum(columns["is_scored"])),
        n_leading=None if is_leading is None else int(np.sum(is_leading)),
        n_scored_leading=None if is_leading is None else int(np.sum(is_leading & columns["is_scored"])),
    )
