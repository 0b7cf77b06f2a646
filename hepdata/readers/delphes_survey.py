"""Check on the first events, before a build begins, whether a sample can be labelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hepdata.errors import HeptError, InputError
from hepdata.readers.delphes import open_tree
from hepdata.readers.delphes_branches import BranchMap, Contents
from hepdata.readers.delphes_events import read_range

MOST_EVENTS = 100
_UNLABELLED = "give `unlabelled=True` to build a dataset for inference only"


@dataclass(frozen=True)
class LabelCounts:
    """Counts of particles by charge and origin; `a + b` adds them."""

    n_events: int = 0
    n_charged: int = 0
    n_charged_leading: int = 0
    n_neutral: int = 0
    n_neutral_leading: int = 0
    n_contradicting: int = 0

    def __add__(self, other: LabelCounts) -> LabelCounts:
        return LabelCounts(
            *(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__)
        )

    @property
    def n_pileup(self) -> int:
        """Particles from pileup."""
        return self.n_charged - self.n_charged_leading + self.n_neutral - self.n_neutral_leading

    @property
    def is_settled(self) -> bool:
        """Whether further events cannot change the result."""
        return 0 < self.n_neutral_leading < self.n_neutral and self.n_charged_leading < self.n_charged


def count_labels(location: str, branches: BranchMap, contents: Contents, n_events: int) -> LabelCounts:
    """Count the first events of a file until the result is clear, at most `n_events`."""
    counts = LabelCounts()
    with open_tree(location) as tree:
        for entry in range(min(int(tree.num_entries), n_events)):
            try:
                counts = counts + _count_entry(tree, branches, contents, entry, location)
            except HeptError:
                # A damaged event: the build finds it again, and stops or skips it as requested.
                continue
            if counts.is_settled and not counts.n_contradicting:
                break
    return counts


def _count_entry(tree: Any, branches: BranchMap, contents: Contents, entry: int, where: str) -> LabelCounts:
    table = read_range(tree, branches, entry, entry + 1, labelled=True, where=where)
    is_neutral = table.columns["charge"] == 0
    is_leading = table.is_leading if table.is_leading is not None else np.zeros(len(is_neutral), dtype=bool)
    return LabelCounts(
        n_events=1,
        n_charged=int(np.sum(~is_neutral)),
        n_charged_leading=int(np.sum(~is_neutral & is_leading)),
        n_neutral=int(np.sum(is_neutral)),
        n_neutral_leading=int(np.sum(is_neutral & is_leading)),
        n_contradicting=sum(
            _count_contradictions(tree, collection.branch, entry)
            for collection in branches.collections
            if collection.label == "IsPU" and "HardEnergyFraction" in contents[collection.branch]
        ),
    )


def _count_contradictions(tree: Any, branch: str, entry: int) -> int:
    """Neutral particles with IsPU = HardEnergyFraction = 0: a calorimeter that fills neither."""
    leaves = [f"{branch}.IsPU", f"{branch}.HardEnergyFraction"]
    has_charge = f"{branch}.Charge" in tree
    names = [*leaves, f"{branch}.Charge"] if has_charge else leaves
    first = {
        name: np.asarray(tree[name].array(entry_start=entry, entry_stop=entry + 1, library="np")[0])
        for name in names
    }
    is_neutral = first[names[2]] == 0 if has_charge else np.ones(len(first[leaves[0]]), dtype=bool)
    return int(np.sum(is_neutral & (first[leaves[0]] == 0) & (first[leaves[1]] == 0)))


def check_labelled(branches: BranchMap, where: object) -> None:
    """Refuse a map with a branch that has no label rule.

    Raises:
        InputError: Naming the branch.
    """
    for collection in branches.collections:
        if collection.label is None:
            what = "neutral particles" if collection.is_neutral else "particles"
            raise InputError(
                where,
                found=f"branch {collection.branch!r} without IsPU, HardEnergyFraction or a reference to "
                f"generator particles: its {what} cannot be labelled",
                expected="a label for every particle (Delphes 3.5.1 and later write IsPU)",
                remedy=_UNLABELLED,
            )


def check_counts(counts: LabelCounts, branches: BranchMap, where: object) -> None:
    """Refuse a sample whose labels carry no information.

    Raises:
        InputError: No pileup at all, or neutral particles that all have the same empty label.
    """
    has_charged_pileup = counts.n_charged_leading < counts.n_charged
    by_fraction = any(collection.label == "HardEnergyFraction" for collection in branches.collections)
    is_empty = (has_charged_pileup and counts.n_neutral_leading == counts.n_neutral) or (
        by_fraction and counts.n_charged_leading > 0 and counts.n_neutral_leading == 0
    )
    if counts.n_neutral and (counts.n_contradicting or is_empty):
        raise InputError(
            where,
            found="neutral particles whose IsPU and HardEnergyFraction are always 0 (a card with the "
            "ATLAS-like Calorimeter fills neither)",
            expected="labels that distinguish neutral pileup",
            remedy=f"use a card with a particle-flow calorimeter, or {_UNLABELLED}",
        )
    if counts.n_events and not counts.n_charged + counts.n_neutral:
        raise InputError(
            where,
            found=f"no particle in the first {counts.n_events} events",
            expected="events with particles",
            remedy="name the branch that holds them with `branches` (see hept-data inspect)",
        )
    if counts.n_events and not counts.n_pileup:
        raise InputError(
            where,
            found=f"no pileup particle in the first {counts.n_events} events",
            expected="a sample with pileup, for a training dataset",
            remedy=f"simulate with pileup, or {_UNLABELLED}",
        )
