"""Delphes ROOT files: a file in, the particles of a range of its events out, on one flat axis.

Nothing is kept between calls: a range of entries is read, completed, labelled and handed on, so that memory
follows the range and not the file. This is the only reader that knows uproot.

Axes: V events of the range, P particles of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import uproot
from numpy.typing import NDArray

from hepdata.errors import HeptError, InputError
from hepdata.readers.delphes_branches import LABEL_LEAVES, BranchMap, Collection
from hepdata.readers.delphes_kinematics import complete_kinematics
from hepdata.readers.delphes_labels import match_references

TREE = "Delphes"
_COLUMNS = ("pt", "eta", "phi", "px", "py", "energy", "rapidity", "charge", "pid")


@dataclass(frozen=True)
class TreeSurvey:
    """What a file says of itself before any event is read.

    Attributes:
        location: Path or URL.
        n_events: Entries of the tree.
        n_cycles: Versions of the tree in the file; the newest is read.
        root_version: Version of ROOT that wrote it.
        contents: Leaves of every branch.
        classes: Delphes class of every branch, "" where the file does not say.
    """

    location: str
    n_events: int
    n_cycles: int
    root_version: str
    contents: Mapping[str, frozenset[str]]
    classes: Mapping[str, str]


@dataclass(frozen=True)
class ParticleTable:
    """Particles of consecutive events.

    Attributes:
        first: Entry of the first event.
        offsets: (V + 1,) where each event begins on the particle axis.
        columns: One (P,) array per quantity: pt, eta, phi, px, py, energy, rapidity, charge, pid.
        is_leading: (P,) whether from the leading collision, None where that was not asked for.
        problems: Entries that cannot be used, and why.
    """

    first: int
    offsets: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    is_leading: NDArray[np.bool_] | None
    problems: Mapping[int, HeptError]


@contextmanager
def open_tree(location: str) -> Iterator[Any]:
    """The newest `Delphes` tree of a file.

    Raises:
        InputError: The file is missing, is not ROOT, is damaged, or has no such tree.
    """
    try:
        file = uproot.open(location)
    except FileNotFoundError as error:
        raise InputError(
            location, found="no such file", expected="a Delphes ROOT file", remedy="check the path"
        ) from error
    except HeptError:
        raise
    except Exception as error:  # uproot raises almost anything on bytes that are not ROOT
        raise _unreadable(location, error) from error
    with file:
        yield _find_tree(file, location)


def _find_tree(file: Any, location: str) -> Any:
    try:
        kinds = file.classnames(cycle=False, recursive=False)
        if kinds.get(TREE) == "TTree":
            return file[TREE]
    except Exception as error:  # the directory itself may be damaged
        raise _unreadable(location, error) from error
    present = ", ".join(sorted(kinds)) or "nothing"
    if "events" in kinds and ("podio_metadata" in kinds or "metadata" in kinds):
        raise InputError(
            location,
            found="an EDM4hep file (tree 'events')",
            expected=f"Delphes' own output with a tree {TREE!r}",
            remedy="run DelphesHepMC or DelphesPythia8 instead of the EDM4hep converter",
        )
    raise InputError(
        location,
        found=f"no tree {TREE!r} (the file has: {present})",
        expected=f"Delphes output with a tree {TREE!r}",
        remedy="give files written by Delphes",
    )


def _unreadable(location: str, error: Exception) -> InputError:
    text = " ".join(str(error).split())
    return InputError(
        location,
        found=f"a file that does not read as ROOT ({type(error).__name__}: {text[:120]})",
        expected="a complete Delphes ROOT file",
        remedy="copy or make the file again",
    )


def survey_tree(location: str) -> TreeSurvey:
    """Look at a file without reading its events.

    Raises:
        InputError: As for `open_tree`.
    """
    with open_tree(location) as tree:
        try:
            contents: dict[str, set[str]] = {}
            for name in tree.keys(recursive=True, full_paths=False):
                branch, dot, leaf = name.partition(".")
                if dot:
                    contents.setdefault(branch, set()).add(leaf)
            classes = {
                branch.name: str(branch.member("fClonesName", none_if_missing=True) or "")
                for branch in tree.branches
            }
            cycles = [
                key for key in tree.file.root_directory.keys(recursive=False) if key.split(";")[0] == TREE
            ]
            return TreeSurvey(
                location=location,
                n_events=int(tree.num_entries),
                n_cycles=len(cycles),
                root_version=str(tree.file.root_version),
                contents={branch: frozenset(leaves) for branch, leaves in contents.items()},
                classes={branch: classes.get(branch, "") for branch in contents},
            )
        except Exception as error:
            raise _unreadable(location, error) from error


def count_entries(
    tree: Any, contents: Mapping[str, frozenset[str]], entry: int, where: str
) -> dict[str, int]:
    """How many objects each branch holds in one event."""
    counts = {}
    try:
        for branch, leaves in contents.items():
            size = f"{branch}_size"
            name = size if size in tree else f"{branch}.{min(leaves)}"
            value = tree[name].array(entry_start=entry, entry_stop=entry + 1, library="np")[0]
            counts[branch] = int(value) if name == size else len(value)
    except Exception as error:
        raise _unreadable(where, error) from error
    return counts


def list_leaves(branches: BranchMap, *, labelled: bool) -> list[str]:
    """Full names of the leaves that a map reads, each once."""
    names: dict[str, None] = {}
    for collection in branches.collections:
        leaves = list(collection.leaves.values())
        if labelled and collection.label is not None:
            leaves.append(LABEL_LEAVES[collection.label])
        names.update(dict.fromkeys(f"{collection.branch}.{leaf}" for leaf in leaves))
        if labelled and collection.label == "TRef":
            names["Particle.fUniqueID"] = None
    return list(names)


def split_entries(
    tree: Any, leaves: list[str], start: int, stop: int, step_bytes: int
) -> list[tuple[int, int]]:
    """Cut entries [start, stop) into ranges of at most about `step_bytes` uncompressed, along basket borders.

    A basket larger than that is cut too: it is the entries of a range that fill memory once they are read.
    """
    wanted = set(leaves)
    chosen = [branch for branch in tree.itervalues(recursive=True) if branch.name in wanted]
    per_entry = max(sum(branch.uncompressed_bytes for branch in chosen) / max(tree.num_entries, 1), 1.0)
    most = max(int(step_bytes / per_entry), 1)
    borders = [entry for entry in _common_borders(chosen) if start < entry < stop]
    ranges = []
    at = start
    while at < stop:
        within = [border for border in borders if at < border <= at + most]
        end = within[-1] if within and at + most < stop else min(at + most, stop)
        ranges.append((at, end))
        at = end
    return ranges


def _common_borders(chosen: list[Any]) -> list[int]:
    common = set(chosen[0].entry_offsets)
    for branch in chosen[1:]:
        common &= set(branch.entry_offsets)
    return sorted(int(entry) for entry in common)


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
    except HeptError:
        raise
    except Exception as error:  # damaged baskets surface as whatever the decompressor or numpy raise
        raise _unreadable(where, error) from error
    problems: dict[int, HeptError] = {}
    parts = []
    for collection in branches.collections:
        arrays = _align_lengths(collection, arrays, start, where, problems)
        parts.append(_complete(collection, arrays, labelled))
    offsets, columns = _merge(parts)
    is_leading = columns.pop("is_leading", None)
    return ParticleTable(start, offsets, columns, is_leading, problems)


Jagged = tuple[NDArray[np.int64], NDArray[Any]]
"""Offsets and flat values of one leaf."""


def _read_arrays(tree: Any, leaves: list[str], start: int, stop: int) -> dict[str, Jagged]:
    arrays = tree.arrays(filter_name=leaves, entry_start=start, entry_stop=stop, library="ak", how=dict)
    out: dict[str, Jagged] = {}
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
    """The same leaves with the events taken out whose leaves have different lengths."""
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
                expected="leaves of one length",
                remedy="make the file again, or leave such events out with --on-error skip",
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
    columns = complete_kinematics(raw)
    if labelled:
        columns["is_leading"] = _label(collection, offsets, arrays)
    return offsets, columns


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
    return match_references((offsets, values), arrays["Particle.fUniqueID"])


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
