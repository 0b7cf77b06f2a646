"""Columns that a user defines, and points that a user selects.

In: a cloud without pairs, and texts such as `dxy = hypot(x, y)` and `abs(eta) < 2.5`; out: a cloud with other
columns and fewer points. Labels keep their values of the whole event unless they are counted again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.features.expressions import Expression, parse_expression
from hepdata.features.labels import count_hits
from hepdata.schema import Column, Schema

_DEFINITION = re.compile(r"\s*([A-Za-z_]\w{0,127})\s*(?:\[([^\]$]{0,50})\])?\s*=(?!=)(.*)", re.DOTALL)
# The types of the results of numexpr, and in which they are stored.
_STORED = {"b": "bool", "i": "int64", "f": "float32"}
# Not stored for hits; computed from r and φ where an expression uses them.
_CARTESIAN = {"x": np.cos, "y": np.sin}


@dataclass(frozen=True)
class Definition:
    """A column that is computed from others."""

    column: Column
    expression: Expression


@dataclass(frozen=True)
class PointSteps:
    """What is done to the points of every cloud after its features are made.

    Attributes:
        definitions: New columns, each computed from the ones before.
        selections: Points are kept where all of them hold.
        relabel: Whether `n_hits`, `n_layers_hit` and `is_reconstructable` count the kept hits only.
        schema: Of the clouds that leave.
    """

    definitions: tuple[Definition, ...]
    selections: tuple[Expression, ...]
    relabel: bool
    schema: Schema = field(repr=False)

    @classmethod
    def choose(
        cls, schema: Schema, define: Sequence[str], select: Sequence[str], *, relabel: bool = False
    ) -> PointSteps:
        """Check what a user wrote for clouds of a schema.

        Raises:
            InputError: No `NAME = EXPRESSION`, a name that is taken, an expression that cannot be computed,
                or nothing to count again.
        """
        definitions = []
        for text in define:
            found = _define(text, schema)
            definitions.append(found)
            schema = _add_column(schema, found)
        selections = tuple(parse_expression(text, _names(schema), "`select`") for text in select)
        for selection in selections:
            if (kind := selection.evaluate(_example(schema)).dtype.kind) != "b":
                raise InputError(
                    f"`select` {selection.text!r}",
                    found={"i": "whole numbers", "f": "numbers"}.get(kind, "values"),
                    expected="a comparison, or several with `and` and `or`",
                    remedy="write for instance `pt > 0.5`",
                )
        if relabel and not (selections and schema.has_column("n_layers_hit")):
            raise InputError(
                "`relabel`",
                found="no selection" if not selections else "no labels that count hits",
                expected="`select`, and columns such as n_hits",
                remedy="leave it out",
            )
        return cls(tuple(definitions), selections, relabel, schema)

    def __bool__(self) -> bool:
        return bool(self.definitions or self.selections)

    def describe(self) -> dict[str, object]:
        """What was asked for, as JSON values."""
        return {
            "define": {entry.column.name: entry.expression.text.strip() for entry in self.definitions},
            "select": [expression.text.strip() for expression in self.selections],
            "relabel": self.relabel,
        }

    def apply(self, cloud: PointCloud) -> PointCloud | None:
        """The cloud with its new columns and without the points that are not selected; None if none is left.

        Raises:
            InputError: A new column is not a finite number somewhere.
        """
        columns = dict(cloud.columns)
        for definition in self.definitions:
            columns[definition.column.name] = _compute(definition, columns, cloud)
        if self.selections:
            kept = np.ones(cloud.n_points, dtype=bool)
            for selection in self.selections:
                kept &= selection.evaluate(_with_cartesian(columns, selection))
            if not kept.any():
                return None
            columns = {name: values[kept] for name, values in columns.items()}
        n_kept = len(next(iter(columns.values())))
        if self.relabel:
            counts = count_hits(columns["particle_id"], columns["layer"])
            columns |= {name: values.astype(columns[name].dtype) for name, values in counts.items()}
        return replace(cloud, columns=columns, n_dropped=cloud.n_dropped + cloud.n_points - n_kept)


def _define(text: str, schema: Schema) -> Definition:
    found = _DEFINITION.fullmatch(text)
    if found is None:
        raise InputError(
            f"`define` {text[:200]!r}",
            found="no NAME = EXPRESSION",
            expected="a definition such as `dxy = hypot(x, y)`, or with a unit `dxy [mm] = hypot(x, y)`",
            remedy="correct the definition",
        )
    name, unit, right = found[1], found[2] or "", found[3].strip()
    if schema.has_column(name):
        raise InputError(
            f"`define` {text!r}",
            found=f"the name {name!r} of an existing column",
            expected="a new name",
            remedy="choose another name",
        )
    expression = parse_expression(right, _names(schema), "`define`")
    kind = expression.evaluate(_example(schema)).dtype.kind
    sources = [c for c in schema.columns if c.name in expression.columns]
    # What is computed from truth is truth.
    is_label = any(column.is_label for column in sources)
    return Definition(Column(name, _STORED[kind], unit, right[:200].replace("$", ""), is_label), expression)


def _add_column(schema: Schema, definition: Definition) -> Schema:
    name, known = definition.column.name, schema.symmetries
    if known is not None:
        # x and y are computed from φ.
        sources = {"phi" if source in _CARTESIAN else source for source in definition.expression.columns}
        known = replace(
            known,
            not_turned=(*known.not_turned, *([name] if sources & known.turned else [])),
            not_reflected=(*known.not_reflected, *([name] if sources & known.reflected else [])),
        )
    return replace(schema, columns=(*schema.columns, definition.column), symmetries=known)


def _compute(definition: Definition, columns: Mapping[str, NDArray[Any]], cloud: PointCloud) -> NDArray[Any]:
    column, expression = definition.column, definition.expression
    with np.errstate(over="ignore"):
        values = expression.evaluate(_with_cartesian(columns, expression)).astype(column.dtype)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        inputs = ", ".join(
            f"{name} = {columns[name][bad[0]]}" for name in expression.columns if name in columns
        )
        raise InputError(
            f"event {cloud.event_id}",
            found=f"{column.name} = {values[bad[0]]} where {inputs} ({len(bad)} such points)",
            expected=f"a finite number from {expression.text!r} at every point",
            remedy="guard it with where(condition, value, other)",
        )
    return values


def _names(schema: Schema) -> list[str]:
    names = [column.name for column in schema.columns]
    has_polar = {"r", "phi"} <= set(names)
    return names + [name for name in _CARTESIAN if has_polar and name not in names]


def _with_cartesian(
    columns: Mapping[str, NDArray[Any]], expression: Expression
) -> Mapping[str, NDArray[Any]]:
    """The columns, with x and y where the expression names them and only r and φ are stored."""
    missing = [name for name in expression.columns if name not in columns]
    return {
        **columns,
        **{name: columns["r"].astype(np.float64) * _CARTESIAN[name](columns["phi"]) for name in missing},
    }


def _example(schema: Schema) -> dict[str, NDArray[Any]]:
    """One point, to learn the type of a result before any event is read."""
    columns: dict[str, NDArray[Any]] = {c.name: np.ones(1, c.dtype) for c in schema.columns}
    return {**dict.fromkeys(_CARTESIAN, np.ones(1)), **columns}
