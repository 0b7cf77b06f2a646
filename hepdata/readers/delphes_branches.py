"""Which branches of a Delphes tree hold the particles, and which leaf is which quantity.

In: the leaves that a tree has; out: a `BranchMap`, from a preset, chosen automatically, or from a YAML file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hepdata.errors import InputError
from hepdata.yaml_text import read_yaml

Quantity = Literal[
    "pt",
    "eta",
    "phi",
    "charge",
    "pid",
    "energy",
    "px",
    "py",
    "rapidity",
    "mass",
    "hard_fraction",
    "d0",
    "dz",
    "em_energy",
    "had_energy",
]
LabelRule = Literal["IsPU", "HardEnergyFraction", "TRef", "TRefArray"]

# Leaf names of the Delphes classes; a tower has ET instead of PT.
LEAVES: dict[Quantity, tuple[str, ...]] = {
    "pt": ("PT", "ET"),
    "eta": ("Eta",),
    "phi": ("Phi",),
    "charge": ("Charge",),
    "pid": ("PID",),
    "energy": ("E",),
    "px": ("Px",),
    "py": ("Py",),
    "rapidity": ("Rapidity",),
    "mass": ("Mass",),
    "hard_fraction": ("HardEnergyFraction",),
    "d0": ("D0",),
    "dz": ("DZ",),
    "em_energy": ("Eem",),
    "had_energy": ("Ehad",),
}
# Column of a cloud, of a card that measures it, to the leaves it is made from.
MEASURED: dict[str, frozenset[Quantity]] = {
    "d0": frozenset({"d0"}),
    "dz": frozenset({"dz"}),
    "em_fraction": frozenset({"em_energy", "had_energy"}),
}
REQUIRED: tuple[Quantity, ...] = ("pt", "eta", "phi")
LABEL_LEAVES: dict[LabelRule, str] = {
    "IsPU": "IsPU",
    "HardEnergyFraction": "HardEnergyFraction",
    "TRef": "Particle",
    "TRefArray": "Particles",
}
# Leaves of the generator particles that references lead to.
GENERATED: dict[LabelRule, frozenset[str]] = {
    "TRef": frozenset({"fUniqueID"}),
    "TRefArray": frozenset({"fUniqueID", "E"}),
}

Contents = Mapping[str, frozenset[str]]
"""Leaves of every branch of a tree."""


@dataclass(frozen=True)
class Collection:
    """One branch whose particles join the cloud.

    Attributes:
        branch: Branch name.
        leaves: Quantity to leaf name; what is missing is computed.
        pid: PDG code of all its particles, if there is no leaf for it.
        charge: Charge of all its particles, if there is no leaf for it.
        label: Rule that gives the collision of a particle; None if there is none.
    """

    branch: str
    leaves: Mapping[str, str] = field(hash=False)
    pid: int | None = None
    charge: int | None = None
    label: LabelRule | None = None

    @property
    def is_neutral(self) -> bool:
        """Whether all its particles are neutral for certain."""
        return self.charge == 0


@dataclass(frozen=True)
class BranchMap:
    """The branches of a sample, merged in this order.

    Attributes:
        name: Preset or file that it comes from.
        collections: Branches with their leaves.
    """

    name: str
    collections: tuple[Collection, ...]

    @property
    def is_labelled(self) -> bool:
        """Whether every branch has a label rule."""
        return all(collection.label is not None for collection in self.collections)

    @property
    def measured(self) -> tuple[str, ...]:
        """Columns of `MEASURED` that some branch gives; the particles of others have 0 in them."""
        leaves = [set(collection.leaves) for collection in self.collections]
        return tuple(name for name, needed in MEASURED.items() if any(needed <= one for one in leaves))

    def describe(self) -> dict[str, object]:
        """The map as JSON values."""
        return {"name": self.name, "collections": [asdict(collection) for collection in self.collections]}


def map_collection(
    branch: str, contents: Contents, *, pid: int | None = None, charge: int | None = None
) -> Collection:
    """The standard leaves that `branch` has, and the best label among its leaves."""
    has = contents[branch]
    leaves: dict[str, str] = {
        name: next(leaf for leaf in known if leaf in has) for name, known in LEAVES.items() if has & {*known}
    }
    label: LabelRule | None = None
    if "IsPU" in has:
        label = "IsPU"
    elif "HardEnergyFraction" in has:
        label = "HardEnergyFraction"
    else:
        generated = contents.get("Particle", frozenset())
        label = next((r for r in GENERATED if LABEL_LEAVES[r] in has and GENERATED[r] <= generated), None)
    return Collection(
        branch,
        leaves,
        pid=None if "pid" in leaves else pid,
        charge=None if "charge" in leaves else charge,
        label=label,
    )


def check_map(branches: BranchMap, contents: Contents, where: object) -> None:
    """Refuse a map that does not fit a tree.

    Raises:
        InputError: A branch or leaf is missing, or a quantity that cannot be computed.
    """
    for collection in branches.collections:
        branch = collection.branch
        if branch not in contents:
            raise _missing(where, f"no branch {branch!r}", f"branch {branch!r} of {branches.name}", contents)
        label = [LABEL_LEAVES[collection.label]] if collection.label else []
        lacking = [leaf for leaf in [*collection.leaves.values(), *label] if leaf not in contents[branch]]
        if lacking:
            raise _missing(
                where, f"no leaf {branch}.{lacking[0]}", f"the leaves of {branches.name}", contents
            )
        unknown = [name for name in REQUIRED if name not in collection.leaves]
        if "charge" not in collection.leaves and collection.charge is None:
            unknown.append("charge")
        if unknown:
            raise _missing(
                where,
                f"branch {branch!r} without {', '.join(unknown)}",
                f"leaves for {', '.join(REQUIRED)} and charge",
                contents,
            )
        needed = GENERATED.get(collection.label, frozenset()) if collection.label else frozenset()
        for leaf in sorted(needed - contents.get("Particle", frozenset())):
            expected = f"generator particles for {collection.label}"
            raise _missing(where, f"no leaf Particle.{leaf}", expected, contents)


def _missing(where: object, found: str, expected: str, contents: Contents) -> InputError:
    present = ", ".join(sorted(contents)) or "none"
    return InputError(
        where,
        found=found,
        expected=expected,
        remedy=f"name another preset or a map of your own with `branches` (branches in the file: {present})",
    )


class _CollectionFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    branch: str
    leaves: dict[Quantity, str]
    pid: int | None = None
    charge: int | None = None
    label: LabelRule | None = None


class _MapFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    collections: list[_CollectionFile]


def read_map(path: Path) -> BranchMap:
    """A map that a user wrote in YAML.

    Raises:
        InputError: The file is missing, is not YAML, or is not a valid map.
    """
    try:
        content = _MapFile.model_validate(read_yaml(path))
        if not content.collections:
            raise ValueError("collections is empty")
    except ValidationError as error:
        first = error.errors()[0]
        path_in_file = ".".join(str(part) for part in first["loc"])
        raise _bad_map(path, f"{path_in_file or 'content'}: {first['msg']}") from error
    except OSError as error:
        raise _bad_map(path, error.strerror or "a file that cannot be read") from error
    except ValueError as error:
        raise _bad_map(path, " ".join(str(error).split())) from error
    return BranchMap(
        path.name,
        tuple(
            Collection(
                entry.branch,
                {str(name): leaf for name, leaf in entry.leaves.items()},
                entry.pid,
                entry.charge,
                entry.label,
            )
            for entry in content.collections
        ),
    )


def _bad_map(path: Path, found: str) -> InputError:
    return InputError(
        path,
        found=found,
        expected="a YAML map: collections: [{branch: PF, label: IsPU, "
        "leaves: {pt: PT, eta: Eta, phi: Phi, charge: Charge, …}}]",
        remedy="correct the map; `leaves` of hept-data inspect lists all leaves",
    )
