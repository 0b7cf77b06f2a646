"""A trained network with the inputs it was made for: clouds, batches or splits enter, outputs leave."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import overload

import torch
from torch import Tensor, nn

from hepdata.cloud import PointCloud
from hepdata.loader.batch import Batch
from hepdata.loader.split import Split
from hepdata.schema import ModelInput
from hept.model.build import build_network
from hept.model.dataset_checks import check_fit
from hept.model.inputs import prepare_batch
from hept.objectives.objective import find_objective
from hept.settings.fields import TrainConfig


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A network ready for use, with the task, objective and inputs it was made for: `model(cloud)`."""

    network: nn.Module
    task: str
    objective: str
    features: tuple[ModelInput, ...]
    coords: tuple[ModelInput, ...]
    config: TrainConfig
    source: str

    @property
    def is_embedding(self) -> bool:
        """Whether its outputs are embeddings, in which groups are found; otherwise they are logits."""
        return find_objective(self.objective).is_embedding

    @overload
    def __call__(self, points: PointCloud | Batch) -> Tensor: ...
    @overload
    def __call__(self, points: Split) -> list[Tensor]: ...
    def __call__(self, points: PointCloud | Batch | Split) -> Tensor | list[Tensor]:
        """Embeddings or logits of points, (N, out); without gradients.

        Args:
            points: A cloud; a batch; or a split, which gives one tensor a cloud.

        Raises:
            InputError: The points do not have the inputs of the model.
        """
        whose = f"the model {self.source}"
        if isinstance(points, Split):
            check_fit(points, self.features, self.coords, whose=whose)
            loader = points.loader(1, features=self.features, coords=self.coords, select=[], pairs=False)
            return [self._run(batch) for batch in loader]
        return self._run(prepare_batch(points, self.features, self.coords, whose=whose))

    def _run(self, batch: Batch) -> Tensor:
        device = next(self.network.parameters()).device
        with torch.no_grad():
            out: Tensor = self.network(*(t.to(device) for t in (batch.features, batch.coords, batch.offsets)))
        return out

    def __repr__(self) -> str:
        what = "embeddings" if self.is_embedding else "logits"
        inputs = f"{len(self.features)} features, {len(self.coords)} coordinates"
        return f"TrainedModel({self.source!r}: {self.task}, {self.config.model.kind}, {inputs} → {what})"


# How functions are told which model is meant: a run or its folder, a weights file, or the loaded model.
ModelLike = str | os.PathLike[str] | TrainedModel


def forget_training(trained: TrainedModel, *, seed: int) -> TrainedModel:
    """The same network with newly drawn weights: what training is measured against.

    The preparation of the inputs is kept; it comes from the data, not from training.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build_network(
            trained.config.model, trained.features, trained.coords, is_embedding=trained.is_embedding
        )
    return replace(trained, network=network.eval(), source=f"{trained.source} before training")
