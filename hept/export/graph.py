"""A trained model as one function of tensors: columns or prepared inputs enter, embeddings or scores leave.

Axes: N points, B clouds, F features, D coordinates.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from hepdata.schema import ModelInput
from hept.attention.definition import HEPTAttention
from hept.attention.kernels.plain import attend_plain
from hept.model.trained import TrainedModel

InputKind = Literal["raw", "prepared"]


class ModelGraph(nn.Module):
    """A copy of a trained network that `torch.export` can trace for any number of points and clouds.

    Args:
        trained: The model.
        inputs: "raw" for stored columns by name; "prepared" for `features` and `coords` as
            `hepdata` loaders give them, which is columns times their scales.
    """

    def __init__(self, trained: TrainedModel, inputs: InputKind) -> None:
        super().__init__()
        self.network = copy.deepcopy(trained.network).cpu().float().eval().requires_grad_(False)
        for module in self.network.modules():
            if isinstance(module, HEPTAttention):
                # Use plain torch: other runtimes do not have this package's compiled kernels.
                module.attend = attend_plain
        self.inputs, self.features, self.coords = inputs, trained.features, trained.coords
        self.is_embedding, self.n_outputs = trained.is_embedding, trained.config.model.out_dim

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the per-point inputs, in order; `offsets` follows them."""
        if self.inputs == "prepared":
            return ("features", "coords")
        return tuple(entry.column for entry in unique_columns(self.features, self.coords))

    @property
    def output_name(self) -> str:
        """What leaves: "embedding" (N, out), or "score" (N,), a probability."""
        return "embedding" if self.is_embedding else "score"

    def forward(self, points: dict[str, Tensor], offsets: Tensor) -> Tensor:
        """Map points to embeddings or scores.

        Args:
            points: By name: columns (N,), float32 or (classes) int64; or `features` (N, F), `coords` (N, D).
            offsets: (B+1,) int64.
        """
        # Tracing specialises on a single cloud, so an empty second one is always added.
        offsets = torch.cat([offsets, offsets.narrow(0, offsets.shape[0] - 1, 1)])
        if self.inputs == "prepared":
            out = self.network(points["features"], points["coords"], offsets)
        else:
            out = self.network(
                scale_columns(points, self.features), scale_columns(points, self.coords), offsets
            )
        return finish_output(out, is_embedding=self.is_embedding, n_outputs=self.n_outputs)


def finish_output(out: Tensor, *, is_embedding: bool, n_outputs: int) -> Tensor:
    """Embeddings as they are; logits as probabilities, (N,) where there is one a point."""
    if is_embedding:
        return out
    return torch.sigmoid(out.squeeze(-1) if n_outputs == 1 else out)


def unique_columns(features: Sequence[ModelInput], coords: Sequence[ModelInput]) -> tuple[ModelInput, ...]:
    """One input for each stored column that a model reads, in order of first use; classes win."""
    found: dict[str, ModelInput] = {}
    for entry in (*features, *coords):
        if entry.column not in found or entry.n_classes:
            found[entry.column] = entry
    return tuple(found.values())


def scale_columns(columns: Mapping[str, Tensor], inputs: Sequence[ModelInput]) -> Tensor:
    """What `hepdata.cloud.stack_inputs` computes, in torch: (N, len(inputs)) float32."""
    # Scaled in double precision, rounded once, as the loader does.
    scaled = (columns[entry.column].double() * entry.scale for entry in inputs)
    return torch.stack([column.float() for column in scaled], 1)
