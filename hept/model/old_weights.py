"""Weights files of old versions, which store only names of inputs: an old header enters, a new one leaves.

In those versions a named input had the scale of its first occurrence in the task's default list, and the
inputs of the default list had their own scales. The coordinate "phi" was periodic unless `model.periodic_phi`
was false. Compression, shift and factor of the features were tensors among the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from hepdata.schema import SCHEMAS, ModelInput, Schema


def is_old(header: dict[str, Any]) -> bool:
    """Whether a header stores only the names of its inputs."""
    return "version" not in header


def renew_header(header: dict[str, Any], state: dict[str, Tensor]) -> dict[str, Any]:
    """Convert to the current header; tensors that describe inputs are removed from `state`.

    Raises:
        KeyError: An unknown task or column, or not the header of a weights file.
    """
    model, data = dict(header["config"]["model"]), dict(header["config"]["data"])
    schema = SCHEMAS[header["config"]["task"]]
    is_periodic = model.pop("periodic_phi")
    del data["signed_log"], data["standardise"]
    features, coords = _resolve(schema, header["features"], header["coords"], data)
    is_log, shift, factor = (state.pop(name).tolist() for name in ("is_log", "shift", "scale"))
    prepared = [
        replace(entry, compression="log" if log else "none", shift=mean, spread=1 / by)
        for entry, log, mean, by in zip(features, is_log, shift, factor, strict=True)
    ]
    placed = [
        entry if is_periodic and entry.column == "phi" else replace(entry, period=None) for entry in coords
    ]
    return {
        **header,
        "config": {**header["config"], "model": model, "data": data},
        "objective": schema.target.objective if schema.target is not None else "",
        "features": [asdict(entry) for entry in prepared],
        "coords": [asdict(entry) for entry in placed],
    }


def _resolve(
    schema: Schema, features: list[str], coords: list[str], data: dict[str, Any]
) -> tuple[list[ModelInput], list[ModelInput]]:
    """The inputs with the scales that the loader applied in training."""
    # Two explicit lists equal to the defaults were treated as the defaults.
    is_default = features == _names(schema.features) and coords == _names(schema.coordinates)
    return (
        _by_name(schema, schema.features, features, is_default or data["features"] is None),
        _by_name(schema, schema.coordinates, coords, is_default or data["coords"] is None),
    )


def _by_name(
    schema: Schema, default: Sequence[ModelInput], names: list[str], is_unsaid: bool
) -> list[ModelInput]:
    # A dataset may lack some columns of the default list; the others keep their order.
    left = [entry for entry in default if entry.column in names]
    if is_unsaid and _names(left) == names:
        return left
    scales = {entry.column: entry for entry in reversed(default)}
    return [scales.get(name) or ModelInput.of(schema.column(name)) for name in names]


def _names(inputs: Sequence[ModelInput]) -> list[str]:
    return [entry.column for entry in inputs]
