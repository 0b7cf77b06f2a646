"""Open Delphes ROOT files: a location in, its tree and a survey of the tree out.

Only the modules named after Delphes import uproot.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uproot

from hepdata.errors import HeptError, InputError
from hepdata.readers.delphes_files import no_answer, version_of
from hepdata.urls import is_url

TREE = "Delphes"


@dataclass(frozen=True)
class TreeSurvey:
    """Properties of a file that are known before any event is read.

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


_kept = threading.local()


@contextmanager
def open_tree(location: str) -> Iterator[Any]:
    """The newest `Delphes` tree of a file.

    The file that a thread used last stays open: opening a tree of a thousand branches takes longer than
    reading an event.

    Raises:
        InputError: The file is missing, is not ROOT, is damaged, or has no such tree.
    """
    # A forked process must not share the position in the file with its parent.
    key = (os.getpid(), location, version_of(location))
    if getattr(_kept, "key", None) != key:
        _close_kept()
        file = _open_file(location)
        try:
            _check_whole(file, location)
            _kept.tree = _find_tree(file, location)
        except HeptError:
            file.close()
            raise
        _kept.file, _kept.key = file, key
    yield _kept.tree


def _close_kept() -> None:
    if getattr(_kept, "key", None) is not None and _kept.key[0] == os.getpid():
        _kept.file.close()
    _kept.key = _kept.tree = _kept.file = None


def _open_file(location: str) -> Any:
    _check_header(location)
    try:
        # A mapping, because uproot reads a colon in a string as the start of an object's name. No cache of
        # arrays: every range is read once.
        return uproot.open({location: None}, array_cache=None, **_choose_access(location))
    except OSError as error:
        if is_url(location) and not str(error).startswith("expected Chunk"):
            raise no_answer(location, error) from error
        raise unreadable(location, error) from error
    except Exception as error:  # uproot raises almost anything on bytes that are not ROOT
        raise unreadable(location, error) from error


def _choose_access(location: str) -> dict[str, Any]:
    """Plain reads for local files: by default uproot reads them with three threads."""
    if is_url(location):
        return {}
    return {"handler": uproot.source.file.MultithreadedFileSource, "use_threads": False}


def _check_header(location: str) -> None:
    """Refuse a local file that is empty, truncated or not ROOT: uproot's messages for these are unclear."""
    if is_url(location):
        return
    path = Path(location)
    if path.exists() and not path.is_file():
        raise InputError(
            location,
            found="a pipe, a device or a folder",
            expected="a Delphes ROOT file on disk",
            remedy="write the content to a file first",
        )
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(20)
    except FileNotFoundError as error:
        raise InputError(
            location, found="no such file", expected="a Delphes ROOT file", remedy="check the path"
        ) from error
    except OSError as error:
        raise InputError(
            location,
            found=f"a file that cannot be opened ({error.strerror})",
            expected="a Delphes ROOT file that can be read",
            remedy="check the path and its permissions",
        ) from error
    if not start:
        raise _incomplete(location, "an empty file")
    if start[:4] != b"root":
        raise _incomplete(location, f"a file that is not ROOT (it begins with {start[:4]!r})")
    if len(start) < 20:
        raise _incomplete(location, f"a truncated file ({size:,} bytes)")
    # "root", version, start of data, end of file: eight bytes where the version is that of a large file.
    version = int.from_bytes(start[4:8], "big")
    end = int.from_bytes(start[12:20] if version >= 1_000_000 else start[12:16], "big")
    if size < end:
        raise _incomplete(location, f"a truncated file ({size:,} of {end:,} bytes)")


def _check_whole(file: Any, location: str) -> None:
    """Compare the size with that in the file's header: a truncated file may open and fail later."""
    expected, found = int(file.file.fEND), int(file.file.source.num_bytes)
    if found < expected:
        raise _incomplete(location, f"a truncated file ({found:,} of {expected:,} bytes)")


def _incomplete(location: str, found: str) -> InputError:
    return InputError(
        location, found=found, expected="a complete Delphes ROOT file", remedy="copy or create the file again"
    )


def _find_tree(file: Any, location: str) -> Any:
    try:
        kinds = file.classnames(cycle=False, recursive=False)
        if kinds.get(TREE) == "TTree":
            return file[TREE]
    except Exception as error:  # the directory itself may be damaged
        raise unreadable(location, error) from error
    present = ", ".join(f"{name} ({kind})" for name, kind in sorted(kinds.items())) or "nothing"
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


def unreadable(location: str, error: Exception) -> InputError:
    """The error for bytes that uproot cannot read."""
    text = " ".join(str(error).split())
    return InputError(
        location,
        found=f"a file that does not read as ROOT ({type(error).__name__}: {text[:120]})",
        expected="a complete Delphes ROOT file",
        remedy="copy or create the file again",
    )


def survey_tree(location: str) -> TreeSurvey:
    """Look at a file without reading its events.

    Raises:
        InputError: As for `open_tree`.
    """
    with open_tree(location) as tree:
        try:
            for branch in tree.branches:
                if branch.num_entries != tree.num_entries:
                    raise ValueError(f"{branch.name} has {branch.num_entries} of {tree.num_entries} entries")
            contents: dict[str, set[str]] = {}
            for name in tree.keys(recursive=True, full_paths=False):
                collection, dot, leaf = name.partition(".")
                if dot:
                    contents.setdefault(collection, set()).add(leaf)
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
            raise unreadable(location, error) from error


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
            counts[branch] = int(value) if name == size else int(np.size(value))
    except Exception as error:
        raise unreadable(where, error) from error
    return counts
