"""What a table of points holds: a YAML file in, a checked description out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from hepdata.errors import InputError, nearest_name
from hepdata.yaml_text import read_yaml

Dtype = Literal["bool", "int8", "int16", "int32", "int64", "float32", "float64"]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Text = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^$]*$")]


def _read_period(value: object) -> object:
    """A number; or "2pi", which YAML reads as text."""
    found = re.fullmatch(r"\s*(\d*\.?\d*)\s*\*?\s*(?:pi|π)\s*", value) if isinstance(value, str) else None
    return value if found is None else float(found[1] or 1) * math.pi


Period = Annotated[float, BeforeValidator(_read_period), Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnDescription(_Part):
    """One column of the points; the fields are those of `hepdata.schema.Column`.

    Attributes:
        source: Its name in the file, where that is another one.
    """

    source: str | None = None
    dtype: Dtype | None = None
    unit: Text = ""
    meaning: Text = ""
    is_label: bool = False
    period: Period | None = None
    n_classes: int = Field(default=0, ge=0, le=1_000_000)


class TargetDescription(_Part):
    """What is to be learned; the fields are those of `hepdata.schema.Target`."""

    objective: Literal["pairs", "classification"]
    label: Name
    selection: Name | None = None
    pt: Name | None = None
    eta: Name | None = None
    point_id: Name = "index_in_source"
    label_names: tuple[Text, Text] = ("no", "yes")
    scored: Text = "all points"


class SymmetriesDescription(_Part):
    """Which columns change when an event is turned or reflected; see `hepdata.symmetries.Symmetries`."""

    angles: tuple[Name, ...] = ()
    vectors: tuple[tuple[Name, Name], ...] = ()
    reversed: tuple[Name, ...] = ()


class TableDescription(_Part):
    """A whole table.

    Attributes:
        task: Name of the task that its datasets have.
        event: Column of the event number; without one, rows of lists are numbered.
        tree: Tree of a ROOT file, group or dataset of an HDF5 file, where there are several.
        columns: What is stored, in this order.
        coordinates: At least two inputs of a model; points are near in the first two.
        features: Inputs of a model; all columns that are no labels where not given.
        target: What is to be learned; None for data without a training target.
        symmetries: What augmentations need to know; None where that is not known.
    """

    task: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
    event: str | None = None
    tree: str | None = None
    columns: dict[Name, ColumnDescription | None] = Field(min_length=1)
    coordinates: list[str | dict[str, object]] = Field(min_length=2)
    features: list[str | dict[str, object]] | None = None
    target: TargetDescription | None = None
    symmetries: SymmetriesDescription | None = None

    def column(self, name: str) -> ColumnDescription:
        """The description of a column; an empty one where the file says nothing about it."""
        return self.columns[name] or ColumnDescription()

    def list_stored(self, *, is_labelled: bool) -> list[str]:
        """The columns that are read: without truth, those that are no labels."""
        return [name for name in self.columns if is_labelled or not self.is_label(name)]

    def is_label(self, name: str) -> bool:
        """Whether a column is truth."""
        return self.column(name).is_label or (self.target is not None and name == self.target.label)

    def source_of(self, name: str) -> str:
        """The column's name in the file."""
        return self.column(name).source or name


def read_description(path: Path) -> TableDescription:
    """A description that a user wrote.

    Raises:
        InputError: The file is missing, is not YAML, or describes no table.
    """
    try:
        found = TableDescription.model_validate(read_yaml(path))
    except ValidationError as error:
        raise _misfit(path, error) from error
    except (OSError, ValueError) as error:
        raise InputError(
            path,
            found=" ".join(str(error).split())[:200],
            expected="a YAML file with task, event, columns, coordinates and target",
            remedy="correct the file; the documentation has an example",
        ) from error
    if found.target is not None:
        for field in ("label", "selection", "pt", "eta", "point_id"):
            name = getattr(found.target, field)
            if name is not None and (field, name) != ("point_id", "index_in_source"):
                _check_name(name, found, f"{path}, target.{field}")
    if found.symmetries is not None:
        turned = found.symmetries
        for name in (*turned.angles, *(n for pair in turned.vectors for n in pair), *turned.reversed):
            _check_name(name, found, f"{path}, symmetries")
    return found


def _check_name(name: str, found: TableDescription, where: str) -> None:
    if name not in found.columns:
        raise InputError(
            where,
            found=f"the unknown column {name!r}",
            expected="one of `columns`",
            remedy=nearest_name(name, list(found.columns)),
        )


def _misfit(path: Path, error: ValidationError) -> InputError:
    first = error.errors()[0]
    where: Sequence[str] = [str(part) for part in first["loc"]]
    key = ".".join(where)
    if first["type"] == "extra_forbidden":
        parts: dict[str, type[_Part]] = {
            "columns": ColumnDescription,
            "target": TargetDescription,
            "symmetries": SymmetriesDescription,
        }
        model = parts.get(where[0], TableDescription)
        return InputError(
            path,
            found=f"the unknown key {key!r}",
            expected=f"one of {', '.join(model.model_fields)}",
            remedy=nearest_name(where[-1], list(model.model_fields)),
        )
    return InputError(
        path,
        found=f"{key or 'the file'} = {first.get('input')!r}"[:200]
        if first["type"] != "missing"
        else f"no {key!r}",
        expected=first["msg"][0].lower() + first["msg"][1:],
        remedy=f"correct {key or 'the file'}",
    )
