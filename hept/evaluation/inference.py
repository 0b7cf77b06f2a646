"""The one pass of a model over a split, for evaluation, prediction, tuning and report.

What looks at the outputs is an `Account`: figures of merit, tracks, curves and pictures of a split take the
same outputs in turn, so that the model runs once however much is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import torch
from torch import Tensor, nn

from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset
from hepdata.loader.stream import Loader
from hepdata.progress import Progress, Silent
from hept.devices.choice import Precision
from hept.devices.out_of_memory import memory_errors
from hept.devices.precision import mixed_precision
from hept.model.dataset_checks import check_fit, check_split, check_task
from hept.model.trained import TrainedModel, find_device

# The network's outputs for a batch, (N, out), and the batch itself, on the network's device.
Answer = tuple[Tensor, Batch]


class Account(Protocol):
    """A result that is accumulated over the outputs of a split, batch by batch."""

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in one batch."""


def take_in(answers: Iterable[Answer], accounts: Sequence[Account]) -> None:
    """Add every batch of outputs to every account."""
    for out, batch in answers:
        for account in accounts:
            account.add(out, batch)


def open_split(trained: TrainedModel, dataset: Dataset, split: str, *, pairs: bool = False) -> Loader:
    """One cloud at a time, with the inputs that the model was trained on.

    Raises:
        InputError: Wrong task, an empty split, or a dataset that does not store the model's inputs.
    """
    check_task(dataset, trained.task, f"the model {trained.source}", objective=trained.objective)
    check_split(dataset, split)
    check_fit(dataset, trained.features, trained.coords, whose=f"the model {trained.source}")
    return dataset[split].loader(1, features=trained.features, coords=trained.coords, pairs=pairs)


def run_model(
    trained: TrainedModel,
    dataset: Dataset,
    split: str,
    *,
    pairs: bool = False,
    max_clouds: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Answer]:
    """Outputs of a model for every cloud of a split, one cloud at a time.

    Raises:
        InputError: Model and dataset do not fit, or the split is empty.
    """
    loader = open_split(trained, dataset, split, pairs=pairs)
    return run_network(
        trained.network, loader, precision=trained.precision, max_clouds=max_clouds, progress=progress
    )


def run_network(
    network: nn.Module,
    loader: Loader,
    *,
    precision: Precision = "32-true",
    device: torch.device | None = None,
    max_clouds: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Answer]:
    """Outputs of a network for every batch of a loader, in evaluation mode.

    Args:
        network: Takes features, coordinates and offsets.
        loader: Its batches.
        precision: Of the arithmetic; outputs are never in half precision.
        device: Where the network is; found from its parameters where not given.
        max_clouds: Stop after so many batches.
        progress: Listener.
    """
    listener = progress or Silent()
    n_batches = len(loader) if max_clouds is None else min(max_clouds, len(loader))
    listener.start("evaluating", n_batches, "cloud")
    found, dtype = find_device(network)
    device = device or found
    was_training = network.training
    network.eval()
    try:
        for batch in islice(loader, n_batches):
            here = batch.to(device, non_blocking=True)
            features, coords = here.features.to(dtype), here.coords.to(dtype)
            with (
                torch.inference_mode(),
                memory_errors(_name_clouds(batch)),
                mixed_precision(device, precision),
            ):
                out = network(features, coords, here.offsets)
            yield out if out.dtype == torch.float64 else out.float(), here
            listener.advance(batch.n_clouds)
    finally:
        network.train(was_training)
        listener.finish()


def _name_clouds(batch: Batch) -> str:
    clouds = zip(batch.event_id.tolist(), batch.sector.tolist(), strict=True)
    names = ", ".join(f"event {event} sector {sector}" for event, sector in clouds)
    return f"{names} ({len(batch.features):,} points)"
