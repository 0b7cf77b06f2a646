"""What the columns of a dataset are: name, type, unit and meaning, for both tasks, in one place.

A schema is written into every manifest, so that a dataset explains itself without this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Literal

Task = Literal["tracking", "pileup"]
TASKS: tuple[Task, ...] = ("tracking", "pileup")


@dataclass(frozen=True)
class Column:
    """One variable, stored as one list per cloud.

    Attributes:
        name: Column name in the files.
        dtype: numpy name of the element type.
        unit: Physical unit, "" for pure numbers.
        meaning: One phrase for people.
        is_label: Whether it is truth, absent from unlabelled datasets.
    """

    name: str
    dtype: str
    unit: str
    meaning: str
    is_label: bool = False


@dataclass(frozen=True)
class ModelInput:
    """A stored column as the model sees it: multiplied by `scale`."""

    column: str
    scale: float = 1.0


@dataclass(frozen=True)
class Schema:
    """The columns of a task, and which of them are the model's features and coordinates."""

    task: Task
    columns: tuple[Column, ...]
    features: tuple[ModelInput, ...]
    coordinates: tuple[ModelInput, ...]

    def column(self, name: str) -> Column:
        """The column called `name`; KeyError where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def without(self, names: frozenset[str]) -> Schema:
        """The same schema for a dataset that lacks some columns (no cells, no truth)."""
        return Schema(
            task=self.task,
            columns=tuple(c for c in self.columns if c.name not in names),
            features=tuple(f for f in self.features if f.column not in names),
            coordinates=tuple(c for c in self.coordinates if c.column not in names),
        )


TRACKING = Schema(
    task="tracking",
    columns=(
        Column("hit_id", "int32", "", "hit number in the source event"),
        Column("volume_id", "int32", "", "detector volume"),
        Column("layer_id", "int32", "", "layer within the volume"),
        Column("module_id", "int32", "", "module within the layer"),
        Column("layer", "int32", "", "detector layer, numbered in (volume, layer) order"),
        Column("r", "float32", "mm", "distance from the beam axis"),
        Column("phi", "float32", "rad", "azimuth"),
        Column("z", "float32", "mm", "position along the beam"),
        Column("eta", "float32", "", "pseudorapidity of the hit position"),
        Column("u", "float32", "1/mm", "x/r², conformal"),
        Column("v", "float32", "1/mm", "y/r², conformal"),
        Column("charge_frac", "float32", "", "deposited charge per cell of the cluster"),
        Column("leta", "float32", "", "pseudorapidity of the cluster extent, module frame"),
        Column("lphi", "float32", "rad", "azimuth of the cluster extent, module frame"),
        Column("lx", "float32", "mm", "cluster extent along the module's u"),
        Column("ly", "float32", "mm", "cluster extent along the module's v"),
        Column("lz", "float32", "mm", "module thickness"),
        Column("geta", "float32", "", "pseudorapidity of the cluster extent, detector frame"),
        Column("gphi", "float32", "rad", "azimuth of the cluster extent, detector frame"),
        Column("particle_id", "int64", "", "generating particle, 0 for noise", is_label=True),
        Column("pt", "float32", "GeV", "transverse momentum of the particle, 0 for noise", is_label=True),
        Column("particle_eta", "float32", "", "pseudorapidity of the particle's momentum", is_label=True),
        Column("n_hits", "int32", "", "hits of the particle in the cloud", is_label=True),
        Column(
            "n_layers_hit", "int32", "", "distinct layers of the cloud hit by the particle", is_label=True
        ),
        Column("is_reconstructable", "bool", "", "at least 3 layers hit and not noise", is_label=True),
    ),
    features=(
        ModelInput("r", 1e-3),
        ModelInput("phi", 1 / pi),
        ModelInput("z", 1e-3),
        ModelInput("eta"),
        ModelInput("u", 1e3),
        ModelInput("v", 1e3),
        ModelInput("charge_frac"),
        ModelInput("leta"),
        ModelInput("lphi"),
        ModelInput("lx"),
        ModelInput("ly"),
        ModelInput("lz"),
        ModelInput("geta"),
        ModelInput("gphi"),
        ModelInput("layer", 0.1),
    ),
    coordinates=(
        ModelInput("eta"),
        ModelInput("phi"),
        ModelInput("r", 1e-3),
        ModelInput("phi", 1 / pi),
        ModelInput("z", 1e-3),
        ModelInput("eta"),
    ),
)

PILEUP = Schema(
    task="pileup",
    columns=(
        Column(
            "index_in_source",
            "int32",
            "",
            "place in the source event; no feature, since files list the leading collision first",
        ),
        Column("eta", "float32", "", "pseudorapidity"),
        Column("phi", "float32", "rad", "azimuth"),
        Column("px", "float32", "GeV", "momentum along x"),
        Column("py", "float32", "GeV", "momentum along y"),
        Column("pt", "float32", "GeV", "transverse momentum"),
        Column("energy", "float32", "GeV", "energy"),
        Column("rapidity", "float32", "", "rapidity"),
        Column(
            "pid_class",
            "int32",
            "",
            "0 charged, 1 photon, 2 K0L, 3 K0S, 4 neutron, 5 Lambda, 6 Xi0, 7 other neutral",
        ),
        Column("charge", "int32", "e", "electric charge"),
        Column("is_scored", "bool", "", "neutral with pt > 0.9 GeV: enters loss and metric"),
        Column("is_leading", "bool", "", "from the leading collision", is_label=True),
    ),
    features=(
        ModelInput("eta"),
        ModelInput("phi"),
        ModelInput("px"),
        ModelInput("py"),
        ModelInput("pt"),
        ModelInput("energy"),
        ModelInput("rapidity"),
        ModelInput("pid_class"),
    ),
    coordinates=(ModelInput("eta"), ModelInput("phi"), ModelInput("eta"), ModelInput("phi")),
)

SCHEMAS: dict[Task, Schema] = {"tracking": TRACKING, "pileup": PILEUP}
