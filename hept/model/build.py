"""From settings and inputs to an untrained network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from torch import nn

from hepdata.errors import InputError
from hepdata.schema import ModelInput
from hept.model.frame import Frame
from hept.model.network import Network, focus_attention, silence_attention
from hept.settings.train_config import ModelConfig


def build_network(
    model: ModelConfig, features: Sequence[ModelInput], coords: Sequence[ModelInput], *, is_embedding: bool
) -> Network:
    """An untrained network for these inputs; weights are drawn from torch's generator.

    Raises:
        InputError: More than one feature holds class numbers, or a coordinate does.
    """
    class_feature = _find_class(features, coords)
    shared = {each.name for each in fields(Frame)} & set(ModelConfig.model_fields)
    frame = Frame(
        len(features),
        len(coords),
        periods=periods_of(coords),
        head="embedding" if is_embedding else "classification",
        n_classes=features[class_feature].n_classes if class_feature is not None else 0,
        class_feature=-1 if class_feature is None else class_feature,
        **model.model_dump(include=shared),
    )
    if model.kind == "hept":
        body: nn.Module = frame.build_hept()
    else:
        # Imported here: HEPT needs nothing of the systems that it is compared with.
        from hept.paper.systems.registry import build_model

        body = build_model(model.kind, frame)
    if model.quiet_start:
        silence_attention(body)
    if model.start_width is not None:
        focus_attention(body, model.start_width)
    return Network(body, features, coords, normalise=model.normalise and is_embedding)


def periods_of(coords: Sequence[ModelInput]) -> dict[int, float]:
    """Periods of the coordinates that are angles, by column."""
    return {i: entry.final_period for i, entry in enumerate(coords) if entry.final_period is not None}


def _find_class(features: Sequence[ModelInput], coords: Sequence[ModelInput]) -> int | None:
    found = [i for i, entry in enumerate(features) if entry.n_classes]
    named = [entry.column for entry in coords if entry.n_classes]
    if len(found) > 1 or named:
        raise InputError(
            "data.coords" if named else "data.features",
            found=f"columns of classes: {', '.join(named or [features[i].column for i in found])}",
            expected="numeric coordinates" if named else "at most one feature that holds class numbers",
            remedy="leave it out, or treat it as a number with n_classes: 0",
        )
    return found[0] if found else None
