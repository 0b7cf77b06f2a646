"""A trained network with the inputs it was made for: clouds, batches or splits enter, outputs leave."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import overload

import torch
from torch import Tensor, nn

from hepdata.cloud import PointCloud
from hepdata.loader.batch import Batch
from hepdata.loader.split import Split
from hepdata.schema import ModelInput
from hept.devices.choice import Precision, choose_device
from hept.devices.precision import mixed_precision
from hept.metrics.calibration import UNCHANGED, ScoreMap
from hept.model.build import build_network
from hept.model.dataset_checks import check_fit
from hept.model.prepare_cloud import prepare_batch
from hept.objectives.objective import find_objective
from hept.settings.train_config import TrainConfig


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A network ready for use, with the task, objective and inputs it was made for: `model(cloud)`.

    `calibration` makes probabilities of logits; it was fitted on the validation split. The model computes
    where it is, on the CPU when it is loaded: `model.on("cuda")` is the same model on a GPU.
    """

    network: nn.Module
    task: str
    objective: str
    features: tuple[ModelInput, ...]
    coords: tuple[ModelInput, ...]
    config: TrainConfig
    source: str
    precision: Precision = "32-true"
    calibration: ScoreMap = UNCHANGED

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

    def on(self, device: str = "auto", precision: Precision | None = None) -> TrainedModel:
        """The same model on a device, in a precision; the network itself is copied where it has to change.

        Args:
            device: "cpu", "cuda", "cuda:1", "mps", or "auto": a GPU if there is one.
            precision: Of the arithmetic; that of the model's training where not given.

        Raises:
            InputError: No name of a device, or one that is not there.
        """
        chosen, precision = choose_device(device), precision or self.config.precision
        dtype = torch.float64 if precision == "64-true" else torch.float32
        network = self.network
        if next(network.parameters(), None) is not None and find_device(network) != (chosen, dtype):
            network = deepcopy(network).to(chosen, dtype)
        return replace(self, network=network, precision=precision)

    def _run(self, batch: Batch) -> Tensor:
        device, dtype = find_device(self.network)
        features, coords = (tensor.to(device, dtype) for tensor in (batch.features, batch.coords))
        with torch.no_grad(), mixed_precision(device, self.precision):
            out: Tensor = self.network(features, coords, batch.offsets.to(device))
        return out

    def __repr__(self) -> str:
        what = "embeddings" if self.is_embedding else "logits"
        inputs = f"{len(self.features)} features, {len(self.coords)} coordinates"
        return f"TrainedModel({self.source!r}: {self.task}, {self.config.model.kind}, {inputs} → {what})"


def find_device(network: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Where a network computes, and in which type; a network without parameters on the CPU in float32."""
    parameter = next(network.parameters(), None)
    return (torch.device("cpu"), torch.float32) if parameter is None else (parameter.device, parameter.dtype)


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
    network = network.to(*find_device(trained.network)).eval()
    source = f"{trained.source} before training"
    return replace(trained, network=network, source=source, calibration=UNCHANGED)
