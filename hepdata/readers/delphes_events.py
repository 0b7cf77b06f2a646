"""Particles of a range of events: leaves read, completed, labelled and merged, on one flat axis.

Nothing is kept between calls: memory depends on the range, not on the file.

Axes: V events of the range, P particles of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import HeptError, InputError
from hepdata.readers.delphes import unreadable
from hepdata.readers.delphes_branches import GENERATED, LABEL_LEAVES, BranchMap, Collection
from hepdata.readers.delphes_kinematics import complete_kinematics, find_measured
from hepdata.readers.delphes_labels import match_references, share_of_leading
from hepdata.readers.delphes_references import read_references

Jagged = tuple[NDArray[np.int64], NDArray[Any]]
"""Offsets and flat values of one leaf."""


@dataclass(frozen=True)
class ParticleTable:
    """Particles of consecutive events.

    Attributes:
        first: Entry of the first event.
        offsets: (V + 1,) where each event begins on the particle axis.
        columns: One (P,) array per quantity: pt, eta, phi, px, py, energy, rapidity, charge, pid,
            and those of `BranchMap.measured`; with labels also hard_fraction.
        is_leading: (P,) whether from the leading collision; None if not requested.
        problems: Entries that cannot be used, and why.
    """

    first: int
    offsets: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    is_leading: NDArray[np.bool_] | None
    problems: Mapping[int, HeptError]

    @property
    def stop(self) -> int:
        """The entry after the last."""
        return self.first + len(self.offsets) - 1

    def cut(self, start: int, stop: int) -> ParticleTable:
        """The events [start, stop) of the table; arrays are views."""
        if (start, stop) == (self.first, self.stop):
            return self
        offsets = self.offsets[start - self.first : stop - self.first + 1]
        part = slice(offsets[0], offsets[-1])
        return ParticleTable(
            start,
            offsets - offsets[0],
            {name: values[part] for name, values in self.columns.items()},
            None if self.is_leading is None else self.is_leading[part],
            {entry: error for entry, error in self.problems.items() if start <= entry < stop},
        )

    def divide(self, n_particles: int) -> Iterator[ParticleTable]:
        """The table in parts of whole events with about `n_particles` particles each."""
        start = 0
        while start < len(self.offsets) - 1:
            stop = max(int(np.searchsorted(self.offsets, self.offsets[start] + n_particles)), start + 1)
            stop = min(stop, len(self.offsets) - 1)
            yield self.cut(self.first + start, self.first + stop)
            start = stop


def list_leaves(branches: BranchMap, *, labelled: bool) -> list[str]:
    """Full names of the leaves that a map reads, each once."""
    names: dict[str, None] = {}
    for collection in branches.collections:
        leaves = list(collection.leaves.values())
        if labelled and collection.label is not None:
            leaves.append(LABEL_LEAVES[collection.label])
        names.update(dict.fromkeys(f"{collection.branch}.{leaf}" for leaf in leaves))
        if labelled and collection.label in GENERATED:
            # Only some files have the flag; uproot ignores names that a tree does not have.
            names |= dict.fromkeys(("Particle.fUniqueID", "Particle.IsPU"))
        if labelled and collection.label == "TRefArray":
            names["Particle.E"] = None
    return list(names)


def read_range(
    tree: Any, branches: BranchMap, start: int, stop: int, *, labelled: bool, where: str
) -> ParticleTable:
    """Read, complete and label the particles of entries [start, stop).

    An event whose leaves disagree in length or hold NaN is listed in `problems`; its particles are empty.

    Raises:
        InputError: The range cannot be read at all.
    """
    try:
        arrays = _read_arrays(tree, list_leaves(branches, labelled=labelled), start, stop)
        lacking = [
            name
            for name, (offsets, _) in arrays.items()
            if len(offsets) != stop - start + 1 and not name.startswith(_REFERENCES)
        ]
        if lacking:
            raise ValueError(f"{lacking[0]} does not have all of the entries {start} to {stop}")
    except HeptError:
        raise
    except Exception as error:  # damaged baskets surface as whatever the decompressor or numpy raise
        raise unreadable(where, error) from error
    problems: dict[int, HeptError] = {}
    parts = []
    for collection in branches.collections:
        arrays = _align_lengths(collection, arrays, start, where, problems)
        offsets, columns = _complete(collection, arrays, labelled)
        absent = np.zeros(int(offsets[-1]), dtype=np.float32)
        parts.append((offsets, dict.fromkeys(branches.measured, absent) | columns))
    offsets, columns = _merge(parts)
    is_leading = columns.pop("is_leading", None)
    return ParticleTable(start, offsets, columns, is_leading, problems)


def _read_arrays(tree: Any, leaves: list[str], start: int, stop: int) -> dict[str, Jagged]:
    lists = [leaf for leaf in leaves if leaf.endswith(f".{LABEL_LEAVES['TRefArray']}")]
    plain = [leaf for leaf in leaves if leaf not in lists]
    arrays = tree.arrays(filter_name=plain, entry_start=start, entry_stop=stop, library="ak", how=dict)
    out: dict[str, Jagged] = {}
    for leaf in lists:
        offsets, references = read_references(tree[leaf], start, stop)
        # The number of each particle's array, since events may be left out below.
        out[leaf] = (offsets, np.arange(offsets[-1]))
        out[_references_of(leaf)] = references
    for name, array in arrays.items():
        values = array["ref"] if "ref" in array.fields else array
        layout = values.layout.to_ListOffsetArray64(True)
        offsets = np.asarray(layout.offsets.data)
        out[name.rpartition("/")[2]] = (offsets, np.asarray(layout.content.data)[: offsets[-1]])
    return out


def _align_lengths(
    collection: Collection,
    arrays: dict[str, Jagged],
    start: int,
    where: str,
    problems: dict[int, HeptError],
) -> dict[str, Jagged]:
    """The leaves without the events whose leaves have different lengths."""
    names = [name for name in arrays if name.startswith(f"{collection.branch}.")]
    first = names[0]
    bad = np.zeros(len(arrays[first][0]) - 1, dtype=bool)
    for name in names[1:]:
        if np.array_equal(arrays[name][0], arrays[first][0]):
            continue
        lengths, expected = np.diff(arrays[name][0]), np.diff(arrays[first][0])
        for event in np.flatnonzero((lengths != expected) & ~bad):
            problems[start + int(event)] = InputError(
                f"{where}, entry {start + event}",
                found=f"{lengths[event]} values of {name} for {expected[event]} of {first}",
                expected="equally many values in each leaf of an event",
                remedy="create the file again, or skip such events with `on_error='skip'`",
            )
        bad |= lengths != expected
    if not bad.any():
        return arrays
    return {name: _without(arrays[name], bad) if name in names else arrays[name] for name in arrays}


def _without(jagged: Jagged, bad: NDArray[np.bool_]) -> Jagged:
    offsets, values = jagged
    lengths = np.diff(offsets)
    kept = np.repeat(~bad, lengths)
    return np.concatenate([[0], np.cumsum(np.where(bad, 0, lengths))]), values[kept]


def _complete(
    collection: Collection, arrays: dict[str, Jagged], labelled: bool
) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    def values(leaf: str) -> NDArray[Any]:
        return arrays[f"{collection.branch}.{leaf}"][1]

    offsets = arrays[f"{collection.branch}.{collection.leaves['eta']}"][0]
    n = int(offsets[-1])
    raw = {name: values(leaf) for name, leaf in collection.leaves.items()}
    raw.setdefault("charge", np.full(n, collection.charge or 0, dtype=np.int32))
    raw.setdefault("pid", np.full(n, collection.pid or 0, dtype=np.int32))
    columns = complete_kinematics(raw) | find_measured(raw)
    if labelled:
        if collection.label == "TRefArray":
            fraction = _share(collection, offsets, arrays, columns["energy"])
            columns["is_leading"] = fraction >= 0.5
        else:
            columns["is_leading"] = _label(collection, offsets, arrays)
            fraction = raw.get("hard_fraction", columns["is_leading"])
        columns["hard_fraction"] = np.clip(np.asarray(fraction, dtype=np.float32), 0.0, 1.0)
    return offsets, columns


def _share(
    collection: Collection,
    offsets: NDArray[np.int64],
    arrays: dict[str, Jagged],
    measured: NDArray[np.floating],
) -> NDArray[np.float64]:
    leaf = f"{collection.branch}.{LABEL_LEAVES['TRefArray']}"
    return share_of_leading(
        (offsets, arrays[leaf][1]),
        arrays[_references_of(leaf)],
        arrays["Particle.fUniqueID"],
        arrays["Particle.E"][1],
        arrays.get("Particle.IsPU"),
        measured,
    )


# Key of the references of a leaf; unlike leaves, they are not one array per event.
_REFERENCES = "references of "


def _references_of(leaf: str) -> str:
    return f"{_REFERENCES}{leaf}"


def _label(
    collection: Collection, offsets: NDArray[np.int64], arrays: dict[str, Jagged]
) -> NDArray[np.bool_]:
    if collection.label is None:
        raise ValueError(f"branch {collection.branch} has no label rule; read it with labelled=False")
    values = arrays[f"{collection.branch}.{LABEL_LEAVES[collection.label]}"][1]
    if collection.label == "IsPU":
        return np.asarray(values == 0)
    if collection.label == "HardEnergyFraction":
        return np.asarray(values >= 0.5)
    return match_references((offsets, values), arrays["Particle.fUniqueID"], arrays.get("Particle.IsPU"))


def _merge(
    parts: list[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]],
) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    """Several branches as one, event by event, in the order of the map."""
    if len(parts) == 1:
        return parts[0]
    n_events = len(parts[0][0]) - 1
    event = np.concatenate([np.repeat(np.arange(n_events), np.diff(offsets)) for offsets, _ in parts])
    order = np.argsort(event, kind="stable")
    total = np.sum([offsets for offsets, _ in parts], axis=0)
    return total, {
        name: np.concatenate([columns[name] for _, columns in parts])[order] for name in parts[0][1]
    }
