"""From settings to a model's inputs: names and changes in, `ModelInput` values out.

A choice is the name of a column, a mapping such as `{"column": "phi", "scale": 0.318}` with fields of
`ModelInput`, or a `ModelInput`. Other fields come from the schema: from the first default input of the same
column, or else from the column itself. The column "*" stands for every default input that the list does not
name otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache

from pydantic import TypeAdapter, ValidationError

from hepdata.errors import InputError, nearest_name
from hepdata.schema import ModelInput, Schema

InputChoice = str | Mapping[str, object] | ModelInput
EVERY = "*"
FIELDS = tuple(field.name for field in fields(ModelInput))


def choose_inputs(
    schema: Schema,
    default: Sequence[ModelInput],
    chosen: Sequence[InputChoice] | None,
    *,
    where: object,
) -> tuple[ModelInput, ...]:
    """Resolve a list of choices for a dataset.

    Args:
        schema: Of the dataset.
        default: The dataset's own features, or its coordinates.
        chosen: What to read, in order; None means the default.
        where: Names the list in messages.

    Raises:
        InputError: An unknown column or field, or a value that does not fit.
    """
    if chosen is None:
        return tuple(default)
    parsed = [choice if isinstance(choice, ModelInput) else parse_choice(choice, where) for choice in chosen]
    named = {entry.column if isinstance(entry, ModelInput) else entry[0] for entry in parsed}
    inputs: list[ModelInput] = []
    for entry in parsed:
        if isinstance(entry, ModelInput):
            inputs.append(entry)
        elif entry[0] == EVERY:
            # Changes for all columns apply to numbers only, not to classes.
            inputs += [
                one if one.n_classes else _change(one, entry[1], where)
                for one in default
                if one.column not in named
            ]
        else:
            inputs.append(_change(_find(schema, default, entry[0], where), entry[1], where))
    if not inputs:
        raise InputError(where, found="an empty list", expected="at least one input", remedy="name a column")
    check_inputs(schema, inputs, where=where, whose="this list")
    return tuple(inputs)


def parse_choice(choice: object, where: object) -> tuple[str, dict[str, object]]:
    """The column of a choice, and the fields that it changes.

    Raises:
        InputError: Neither a name nor a mapping with a column, an unknown field, or a value of another type.
    """
    if isinstance(choice, str):
        return choice, {}
    if not isinstance(choice, Mapping) or not isinstance(choice.get("column"), str):
        raise InputError(
            where,
            found=f"the input {choice!r}",
            expected="a column's name, or fields such as {column: phi, scale: 0.318}",
            remedy="write each input in one of the two ways",
        )
    for name in choice:
        if name not in FIELDS:
            raise InputError(
                where,
                found=f"the unknown field {name!r} of the input {choice['column']!r}",
                expected=f"one of {', '.join(FIELDS)}",
                remedy=nearest_name(str(name), list(FIELDS)),
            )
    try:
        # Checks the types and what does not depend on the column.
        whole = _adapter().validate_python(dict(choice))
    except ValidationError as error:
        raise _misfit(where, str(choice["column"]), error) from error
    return whole.column, {name: getattr(whole, name) for name in choice if name != "column"}


def check_inputs(schema: Schema, inputs: Iterable[ModelInput], *, where: object, whose: str) -> None:
    """Check that a dataset stores the columns of inputs in the expected units.

    Args:
        schema: Of the dataset.
        inputs: What is to be read.
        where: Names the dataset or the list in messages.
        whose: Names the owner of the inputs in messages.

    Raises:
        InputError: A missing column, another unit, or another number of classes.
    """
    for entry in inputs:
        if not schema.has_column(entry.column):
            raise InputError(
                where,
                found=f"no column {entry.column!r}",
                expected=f"the input {entry.column!r} of {whose}",
                remedy="build the dataset with it (cells give cluster features), or train on this dataset",
            )
        column = schema.column(entry.column)
        for what, stored, needed in (
            ("unit", column.unit, entry.unit),
            # If one side has none, they agree: settings may take a class as a number, an angle as a length.
            ("number of classes", column.n_classes or entry.n_classes, entry.n_classes or column.n_classes),
            ("period", column.period or entry.period, entry.period or column.period),
        ):
            if stored != needed:
                raise InputError(
                    where,
                    found=f"the column {entry.column!r} with the {what} {stored!r}",
                    expected=f"the {what} {needed!r} of the input of {whose}",
                    remedy="build the dataset again so that it fits, or train on this dataset",
                )


@cache
def _adapter() -> TypeAdapter[ModelInput]:
    return TypeAdapter(ModelInput)


def _find(schema: Schema, default: Sequence[ModelInput], name: str, where: object) -> ModelInput:
    for entry in default:
        if entry.column == name:
            return entry
    if schema.has_column(name):
        return ModelInput.of(schema.column(name))
    raise InputError(
        f"{where}, column {name!r}",
        found="no such column",
        expected=f"a column of this {schema.task} dataset",
        remedy=nearest_name(name, [column.name for column in schema.columns]),
    )


def _change(entry: ModelInput, changes: dict[str, object], where: object) -> ModelInput:
    if changes.get("n_classes"):
        changes = {"scale": 1.0, **changes}
    try:
        return replace(entry, **changes)  # type: ignore[arg-type]  # parse_choice has checked the types
    except ValueError as error:
        raise InputError(
            where,
            found=str(error),
            expected="an input that fits its column",
            remedy="change or leave out the field",
        ) from error


def _misfit(where: object, column: str, error: ValidationError) -> InputError:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "the fields"
    return InputError(
        where,
        found=f"{name} of the input {column!r}: {first.get('input')!r}",
        expected=first["msg"].removeprefix("Value error, "),
        remedy="change or leave out the field",
    )
