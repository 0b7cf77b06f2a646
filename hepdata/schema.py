"""Schemas: the columns of a dataset, the inputs of a model, and what a model is to learn.

A schema is written into every manifest, so that a dataset describes itself, and a new task needs no change of
this package. `TRACKING` and `PILEUP` are the two that come with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import pi
from typing import Literal

from hepdata.particle_classes import PARTICLE_CLASSES
from hepdata.symmetries import Symmetries

Compression = Literal["none", "log"]
# GeV: loss and metrics of the paper consider particles with a larger transverse momentum.
SCORED_PT = 0.9
# Of a dataset's coordinates, those of the plane in which points are neighbours and are hashed: η and φ.
PLANE = slice(0, 2)


@dataclass(frozen=True)
class Column:
    """One variable, stored as one list per cloud.

    Attributes:
        name: Column name in the files.
        dtype: numpy name of the element type.
        unit: Physical unit, "" for pure numbers.
        meaning: One phrase for people.
        is_label: Whether it is truth, absent from unlabelled datasets.
        period: Of an angle, in `unit`; None for all other columns.
        n_classes: Of a column whose values name classes 0 … n_classes − 1; 0 for numbers.
    """

    name: str
    dtype: str
    unit: str
    meaning: str
    is_label: bool = False
    period: float | None = None
    n_classes: int = 0


@dataclass(frozen=True)
class ModelInput:
    """One input of a model: everything that a network needs to know about a column.

    A stored value x enters the network as (compress(scale · x) − shift) / spread. The loader multiplies by
    `scale`; the network does the rest. A class enters as it is stored, and is embedded.

    Attributes:
        column: Name of the stored column.
        scale: Factor for values in `unit`.
        unit: Unit of the stored column.
        period: Of an angle, in `unit`; None for values that are not treated as periodic.
        n_classes: Classes that the values name; 0 for numbers.
        compression: "log" is sign(x)·log(1 + |x|), for heavy tails such as momenta.
        standardise: Whether `shift` and `spread` are learned from the training split.
        shift: Mean of the compressed values.
        spread: Standard deviation of the compressed values.

    Raises:
        ValueError: Values that are out of range or contradict each other.
    """

    column: str
    scale: float = 1.0
    unit: str = ""
    period: float | None = None
    n_classes: int = 0
    compression: Compression = "none"
    standardise: bool = False
    shift: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.scale) or self.scale == 0:
            raise ValueError(f"scale of {self.column}: got {self.scale}, need a number other than 0")
        if self.period is not None and not 0 < self.period < math.inf:
            raise ValueError(f"period of {self.column}: got {self.period}, need a positive number or null")
        if self.compression not in ("none", "log"):
            raise ValueError(f"compression of {self.column}: got {self.compression!r}, need 'none' or 'log'")
        if not math.isfinite(self.shift) or not 0 < self.spread < math.inf:
            raise ValueError(
                f"shift and spread of {self.column}: got {self.shift} and {self.spread}, need a number and a "
                "positive number"
            )
        if self.n_classes < 0:
            raise ValueError(f"n_classes of {self.column}: got {self.n_classes}, need 0 or more")
        if self.n_classes and (self.scale, self.shift, self.spread) != (1, 0, 1):
            raise ValueError(
                f"{self.column} names classes: got a scale, need none (n_classes: 0 for numbers)"
            )
        if self.n_classes and (self.standardise or self.compression != "none"):
            raise ValueError(f"{self.column} names classes: it can be neither compressed nor standardised")

    @classmethod
    def of(cls, column: Column, scale: float = 1.0) -> ModelInput:
        """The default input for a column."""
        return cls(column.name, scale, unit=column.unit, period=column.period, n_classes=column.n_classes)

    @property
    def final_period(self) -> float | None:
        """Period of the values that enter the network; a compressed angle has none."""
        if self.period is None or self.compression != "none":
            return None
        return self.period * abs(self.scale) / self.spread


@dataclass(frozen=True)
class Target:
    """What a model of a task is to learn, and in which columns that is stored.

    Attributes:
        objective: Name of the objective. "pairs": points with the same label belong together, 0 belongs to
            nothing. "classification": the label is yes or no. `hept.objectives.objective` lists them.
        label: Column of the truth.
        selection: Boolean column of the points that count in loss and figures of merit; None: all count
            (pairs: all with a label other than 0).
        pt: Column of the transverse momentum in GeV to which thresholds apply; None: no thresholds.
        eta: Column of the pseudorapidity of what is to be found, against which efficiencies are drawn.
        point_id: Column by which a point is found again in its source.
        label_names: What points without and with a label are called.
        scored: Which points count, in words.
        figures: Names of further figures of merit; `hept.metrics.figures_of_merit` lists them.
    """

    objective: str
    label: str
    selection: str | None = None
    pt: str | None = None
    eta: str | None = None
    point_id: str = "index_in_source"
    label_names: tuple[str, str] = ("no", "yes")
    scored: str = "all points"
    figures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schema:
    """The columns of a task, which of them are the model's features and coordinates, and the target.

    Attributes:
        task: Name of the task.
        columns: Every stored list column.
        features: Features of a model, unless its settings say otherwise.
        coordinates: Its coordinates, likewise.
        target: What is to be learned; None for data without a training target.
        symmetries: Which columns change when an event is turned or reflected; None where that is not known.
    """

    task: str
    columns: tuple[Column, ...]
    features: tuple[ModelInput, ...]
    coordinates: tuple[ModelInput, ...]
    target: Target | None = None
    symmetries: Symmetries | None = None

    def column(self, name: str) -> Column:
        """The column called `name`; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def has_column(self, name: str) -> bool:
        """Whether there is a column called `name`."""
        return any(column.name == name for column in self.columns)

    def without(self, names: frozenset[str]) -> Schema:
        """The same schema for a dataset that lacks some columns (no cells, no truth)."""
        return replace(
            self,
            columns=tuple(c for c in self.columns if c.name not in names),
            features=tuple(f for f in self.features if f.column not in names),
            coordinates=tuple(c for c in self.coordinates if c.column not in names),
            symmetries=self.symmetries and self.symmetries.without(names),
        )


def _inputs(columns: tuple[Column, ...], *scales: tuple[str, float]) -> tuple[ModelInput, ...]:
    by_name = {column.name: column for column in columns}
    return tuple(ModelInput.of(by_name[name], float(scale)) for name, scale in scales)


_TRACKING_COLUMNS = (
    Column("hit_id", "int32", "", "hit number in the source event"),
    Column("volume_id", "int32", "", "detector volume"),
    Column("layer_id", "int32", "", "layer within the volume"),
    Column("module_id", "int32", "", "module within the layer"),
    Column("layer", "int32", "", "detector layer, numbered in (volume, layer) order"),
    Column("r", "float32", "mm", "distance from the beam axis"),
    Column("phi", "float32", "rad", "azimuth", period=2 * pi),
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
    Column("gphi", "float32", "rad", "azimuth of the cluster extent, detector frame", period=2 * pi),
    Column("particle_id", "int64", "", "generating particle, 0 for noise", is_label=True),
    Column("pt", "float32", "GeV", "transverse momentum of the particle, 0 for noise", is_label=True),
    Column("particle_eta", "float32", "", "pseudorapidity of the particle's momentum", is_label=True),
    Column("n_hits", "int32", "", "hits of the particle in the cloud", is_label=True),
    Column("n_layers_hit", "int32", "", "distinct layers of the cloud hit by the particle", is_label=True),
    Column("is_reconstructable", "bool", "", "at least 3 layers hit and not noise", is_label=True),
)

TRACKING = Schema(
    task="tracking",
    columns=_TRACKING_COLUMNS,
    features=_inputs(
        _TRACKING_COLUMNS,
        ("r", 1e-3),
        ("phi", 1 / pi),
        ("z", 1e-3),
        ("eta", 1),
        ("u", 1e3),
        ("v", 1e3),
        ("charge_frac", 1),
        ("leta", 1),
        ("lphi", 1),
        ("lx", 1),
        ("ly", 1),
        ("lz", 1),
        ("geta", 1),
        ("gphi", 1),
        ("layer", 0.1),
    ),
    coordinates=_inputs(
        _TRACKING_COLUMNS,
        ("eta", 1),
        ("phi", 1),
        ("r", 1e-3),
        ("phi", 1 / pi),
        ("z", 1e-3),
        ("eta", 1),
    ),
    target=Target(
        objective="pairs",
        label="particle_id",
        selection="is_reconstructable",
        pt="pt",
        eta="particle_eta",
        point_id="hit_id",
        label_names=("noise", "particle"),
        scored=f"hits, pT > {SCORED_PT:g} GeV",
    ),
    # Cluster extents have no sign: those in the module's frame stay, and the direction in the detector turns.
    symmetries=Symmetries(
        angles=("phi", "gphi"),
        vectors=(("u", "v"),),
        reversed=("z", "eta", "geta", "particle_eta"),
        not_turned=("module_id",),
        not_reflected=("volume_id", "layer_id", "module_id", "layer"),
    ),
)


# Columns of a pileup dataset whose card measures them.
MEASURED = {
    "d0": Column("d0", "float32", "mm", "distance of a track from the beam axis, 0 without one"),
    "dz": Column("dz", "float32", "mm", "position of a track along the beam at that point, 0 without one"),
    "em_fraction": Column("em_fraction", "float32", "", "electromagnetic part of the energy in calorimeters"),
}


def pileup_schema(scored_pt: float = SCORED_PT, measured: Sequence[str] = ()) -> Schema:
    """The schema of a pileup dataset in which neutral particles above `scored_pt` (GeV) are scored.

    Args:
        scored_pt: The scope.
        measured: Columns of `MEASURED` that the source has.
    """
    columns = (
        Column(
            "index_in_source",
            "int32",
            "",
            "place in the source event; no feature, since files list the leading collision first",
        ),
        Column("eta", "float32", "", "pseudorapidity"),
        Column("phi", "float32", "rad", "azimuth", period=2 * pi),
        Column("px", "float32", "GeV", "momentum along x"),
        Column("py", "float32", "GeV", "momentum along y"),
        Column("pt", "float32", "GeV", "transverse momentum"),
        Column("energy", "float32", "GeV", "energy"),
        Column("rapidity", "float32", "", "rapidity"),
        Column(
            "pid_class",
            "int32",
            "",
            ", ".join(f"{number} {name}" for number, (name, _) in enumerate(PARTICLE_CLASSES)),
            n_classes=len(PARTICLE_CLASSES),
        ),
        Column("charge", "int32", "e", "electric charge"),
        Column("is_scored", "bool", "", f"neutral with pt > {scored_pt:g} GeV: enters loss and metric"),
        Column("vertex", "int32", "", "1 charged from the leading vertex, -1 charged from others, 0 neutral"),
        *(MEASURED[name] for name in measured),
        Column("is_leading", "bool", "", "from the leading collision", is_label=True),
        Column(
            "hard_fraction",
            "float32",
            "",
            "part of the energy that is from the leading collision; the label where the source does not tell",
            is_label=True,
        ),
    )
    return Schema(
        task="pileup",
        columns=columns,
        features=_inputs(
            columns,
            *((name, 1) for name in ("eta", "phi", "px", "py", "pt", "energy", "rapidity", "pid_class")),
        ),
        coordinates=_inputs(columns, ("eta", 1), ("phi", 1), ("eta", 1), ("phi", 1)),
        target=Target(
            objective="classification",
            label="is_leading",
            selection="is_scored",
            pt="pt",
            label_names=("pileup", "leading"),
            scored=f"neutral particles, pT > {scored_pt:g} GeV",
            figures=("cleaning",),
        ),
        symmetries=Symmetries(angles=("phi",), vectors=(("px", "py"),), reversed=("eta", "rapidity")),
    )


PILEUP = pileup_schema()

SCHEMAS: dict[str, Schema] = {schema.task: schema for schema in (TRACKING, PILEUP)}
