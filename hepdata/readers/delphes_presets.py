"""Presets for the branches that Delphes cards write, and the choice of one.

In: the leaves and classes of a tree; out: the `BranchMap` of a preset, or the reason why it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hepdata.errors import InputError, nearest_name
from hepdata.readers.delphes_branches import BranchMap, Contents, check_map, map_collection, read_map

AUTOMATIC = "auto"
Classes = Mapping[str, str]
"""Delphes class of every branch, "" where the file does not say."""

_EFLOW = {"EFlowTrack": None, "EFlowPhoton": 22, "EFlowNeutralHadron": 0}
_CANDIDATE = "ParticleFlowCandidate"
# Leaves that identify this class in files without class names.
_CANDIDATE_LEAVES = {"PID", "Charge", "PT", "E", "Eem", "Ehad"}


@dataclass(frozen=True)
class Fit:
    """Whether a preset fits a file.

    Attributes:
        preset: Its name.
        branches: The map; None if it does not fit.
        reason: Why it does not fit; "" if it does.
    """

    preset: str
    branches: BranchMap | None
    reason: str = ""


def try_presets(contents: Contents, classes: Classes) -> list[Fit]:
    """All presets against a tree, in the order of preference."""
    return [_try(name, contents, classes) for name in PRESETS]


def choose_branches(wanted: str, contents: Contents, classes: Classes, where: object) -> BranchMap:
    """The map for a tree.

    Args:
        wanted: A preset, "auto", or the path of a YAML map.
        contents: Leaves of every branch.
        classes: Class of every branch.
        where: The file, for messages.

    Raises:
        InputError: It does not fit, or "auto" finds none that does.
    """
    if wanted == AUTOMATIC:
        return _choose_automatically(contents, classes, where)
    if wanted not in PRESETS:
        path = Path(wanted)
        if path.suffix not in (".yaml", ".yml") and not path.exists():
            raise InputError(
                "`branches`",
                found=repr(wanted),
                expected=f"a preset ({', '.join(PRESETS)}), {AUTOMATIC}, or a YAML file",
                remedy=nearest_name(wanted, [*PRESETS, AUTOMATIC]),
            )
        branches = read_map(path)
        check_map(branches, contents, where)
        return branches
    fit = _try(wanted, contents, classes)
    if fit.branches is None:
        raise InputError(
            where,
            found=fit.reason,
            expected=f"the branches of preset {wanted!r}",
            remedy="let `branches='auto'` choose, or see hept-data inspect",
        )
    return fit.branches


def _choose_automatically(contents: Contents, classes: Classes, where: object) -> BranchMap:
    fits = try_presets(contents, classes)
    found = [fit.branches for fit in fits if fit.branches is not None]
    # Layouts with labels first, otherwise in the order of preference.
    for branches in sorted(found, key=lambda branches: not branches.is_labelled):
        return branches
    raise InputError(
        where,
        found="; ".join(f"{fit.preset}: {fit.reason}" for fit in fits),
        expected=f"the branches of one of {', '.join(PRESETS)}",
        remedy="describe the file's own branches in a YAML map and give it with `branches`",
    )


def _try(name: str, contents: Contents, classes: Classes) -> Fit:
    try:
        branches = PRESETS[name](contents, classes)
        check_map(branches, contents, name)
    except InputError as error:
        return Fit(name, None, error.found)
    return Fit(name, branches)


def _map_pf(contents: Contents, classes: Classes) -> BranchMap:
    del classes
    _require("PF", contents)
    return BranchMap("pf", (map_collection("PF", contents),))


def _map_candidates(contents: Contents, classes: Classes) -> BranchMap:
    named = sorted(
        (branch for branch, kind in classes.items() if kind == _CANDIDATE),
        key=lambda branch: branch != _CANDIDATE,
    )
    alike = [
        branch for branch, leaves in contents.items() if leaves >= _CANDIDATE_LEAVES and "Px" not in leaves
    ]
    for branch in (*named, *sorted(alike, key=lambda branch: branch != _CANDIDATE)):
        return BranchMap("particle-flow-candidate", (map_collection(branch, contents),))
    raise _absent(f"branch of class {_CANDIDATE}")


def _map_eflow(contents: Contents, classes: Classes) -> BranchMap:
    del classes
    for branch in _EFLOW:
        _require(branch, contents)
    return BranchMap(
        "eflow",
        tuple(
            map_collection(branch, contents, pid=pid, charge=None if pid is None else 0)
            for branch, pid in _EFLOW.items()
        ),
    )


def _require(branch: str, contents: Contents) -> None:
    if branch not in contents:
        raise _absent(f"branch {branch!r}")


def _absent(what: str) -> InputError:
    return InputError("preset", found=f"no {what}", expected=what, remedy="choose another preset")


PRESETS: dict[str, Callable[[Contents, Classes], BranchMap]] = {
    "pf": _map_pf,
    "particle-flow-candidate": _map_candidates,
    "eflow": _map_eflow,
}
