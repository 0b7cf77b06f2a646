"""From a model to a traced program for any number of points and clouds, or the reason why there is none."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from hepdata.errors import InputError
from hept.export.graph import InputKind, ModelGraph
from hept.export.sample import Array, draw_sample
from hept.model.trained import TrainedModel

_BY_TREE = "it finds nearest neighbours with a search tree outside torch"
_BY_CLOUD = "it loops over the clouds in Python, so that a program would hold for their sizes only"
_BY_LARGEST = (
    "it sets a number of buckets by the largest cloud, so that a program would hold for that size only"
)
# Models without export, and why. All others are traced, and a failure is reported.
UNTRACEABLE = {
    **dict.fromkeys(("pointtrans", "gcn", "dgcnn", "gravnet", "gatedgnn"), _BY_TREE),
    **dict.fromkeys(("hyperattn", "performer", "performer-khept", "flt", "scatterbrain", "exact"), _BY_CLOUD),
    **dict.fromkeys(("reformer", "flatformer", "flatformer-khept"), _BY_LARGEST),
}
# Sizes of the example clouds for tracing; the program does not depend on them.
TRACED_CLOUDS = (30, 43, 21)


def check_kind(kind: str, where: object) -> None:
    """Check that a kind of model can be exported, before anything is computed.

    Raises:
        InputError: It cannot.
    """
    if kind in UNTRACEABLE:
        raise _cannot(kind, where, UNTRACEABLE[kind])


def trace(trained: TrainedModel, inputs: InputKind) -> tuple[ModelGraph, ExportedProgram]:
    """The model as a function of tensors, and its program.

    Raises:
        InputError: This kind of model cannot be exported.
    """
    check_kind(trained.config.model.kind, trained.source)
    graph = ModelGraph(trained, inputs)
    points, borders = Dim("points", min=2), Dim("borders", min=2)
    example = draw_sample(trained.features, trained.coords, TRACED_CLOUDS, seed=0)
    tensors, offsets = to_tensors(example.select(inputs)), torch.from_numpy(example.offsets)
    shapes = ({name: {0: points} for name in tensors}, {0: borders})
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return graph, torch.export.export(graph, (tensors, offsets), dynamic_shapes=shapes, strict=False)
    except Exception as error:  # Tracing can raise any exception of the traced code.
        reason = f"tracing failed with {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise _cannot(trained.config.model.kind, trained.source, reason) from error


def to_tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Arrays by name as tensors."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _cannot(kind: str, where: object, reason: str) -> InputError:
    return InputError(
        where,
        found=f"a model of the kind {kind!r}, which cannot be exported: {reason}",
        expected="a kind whose every step is a tensor operation, such as 'hept'",
        remedy="train such a model, or use this one through hept.load_model",
    )
