"""Every setting of a training for display: type, default, meaning, and the presets that change it."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from hepdata.errors import InputError
from hept.settings.load import list_presets, load_config, nearest_setting
from hept.settings.train_config import TrainConfig, list_fields


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: Dotted name, as in `settings={"model.n_tables": 5}`.
        type: Allowed values, in words.
        default: Default value; None for null and for a required setting.
        is_required: Whether every configuration must set it.
        meaning: Description in one sentence.
        presets: Values by preset, for presets with another value than the default.
    """

    name: str
    type: str
    default: object
    is_required: bool
    meaning: str
    presets: dict[str, object]


def list_settings(name: str | None = None) -> list[Setting]:
    """List every setting; or the one called `name`, or all of a section such as "model".

    Raises:
        InputError: No setting or section of this name.
    """
    fields = list_fields()
    chosen = [key for key in fields if name is None or key == name or key.startswith(f"{name}.")]
    if not chosen:
        raise InputError(
            f"setting {name}",
            found="no such setting",
            expected="a known setting",
            remedy=nearest_setting(str(name)),
        )
    presets = {preset: load_config(preset) for preset in list_presets()}
    settings = []
    for key in chosen:
        field = fields[key]
        values = {preset: read_setting(config, key) for preset, config in presets.items()}
        settings.append(
            Setting(
                name=key,
                type=_describe_type(field),
                default=None if field.is_required() else field.default,
                is_required=field.is_required(),
                meaning=field.description or "",
                presets={
                    preset: value
                    for preset, value in values.items()
                    if field.is_required() or value != field.default
                },
            )
        )
    return settings


def read_setting(config: TrainConfig, name: str) -> object:
    """The value of a setting by its dotted name."""
    return reduce(getattr, name.split("."), config)


def _describe_type(field: FieldInfo) -> str:
    parts = _alternatives(field.annotation)
    limits = [
        f"{sign} {value:g}"
        for entry in field.metadata
        for sign, value in (
            ("≥", getattr(entry, "ge", None)),
            (">", getattr(entry, "gt", None)),
            ("≤", getattr(entry, "le", None)),
            ("<", getattr(entry, "lt", None)),
        )
        if value is not None
    ]
    return " or ".join([" ".join([parts[0], ", ".join(limits)]).strip(), *parts[1:]])


def _alternatives(annotation: object) -> Sequence[str]:
    if get_origin(annotation) is Literal:
        return [" | ".join(str(value) for value in get_args(annotation))]
    if isinstance(annotation, types.UnionType):
        return [text for part in get_args(annotation) for text in _alternatives(part)]
    if get_origin(annotation) is list:
        return ["list"]
    names = {int: "whole number", float: "number", bool: "true | false", str: "text", types.NoneType: "null"}
    return [names.get(annotation, str(annotation))]  # type: ignore[call-overload]
