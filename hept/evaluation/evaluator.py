"""How good a trained model is on a split: clouds enter, figures of merit leave."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset, DatasetLike, open_dataset
from hepdata.loader.stream import Loader
from hepdata.progress import Progress, Silent
from hept.devices.memory import memory_errors
from hept.model.dataset_checks import check_fit, check_labels, check_split, check_task, find_target
from hept.model.trained import ModelLike, TrainedModel
from hept.model.weights import load_model
from hept.objectives.objective import Objective, make_objective


def evaluate(
    model: ModelLike,
    dataset: DatasetLike,
    split: str = "test",
    *,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Figures of merit of a model on a split.

    Args:
        model: A run folder, a weights file, the published checkpoint, or a loaded model.
        dataset: A dataset or its location.
        split: Which part of it.
        progress: Listener.

    Returns:
        `loss`; pairs: `ap@0.9`, `ap@0.5`, `ap@0`, `precision19@…`, `recall19@…`, means over clouds;
        classification: `auc` (average precision), `roc_auc`, `f1`, pooled and `…_per_cloud`; `n_clouds`;
        and the further figures of merit that the dataset's target names.

    Raises:
        InputError: Model and dataset do not fit, or the split is empty.
    """
    trained, opened = load_model(model), open_dataset(dataset)
    check_labels(opened, needs_pairs=False)
    loader = open_split(trained, opened, split, pairs=opened.manifest.has_pairs)
    objective = make_objective(find_target(opened), trained.config.loss)
    return score_split(trained.network, loader, objective, progress=progress)


def open_split(trained: TrainedModel, dataset: Dataset, split: str, *, pairs: bool = False) -> Loader:
    """One cloud at a time, with the inputs that the model was trained on.

    Raises:
        InputError: Wrong task, an empty split, or a dataset that does not store the model's inputs.
    """
    check_task(dataset, trained.task, f"the model {trained.source}", objective=trained.objective)
    check_split(dataset, split)
    check_fit(dataset, trained.features, trained.coords, whose=f"the model {trained.source}")
    return dataset[split].loader(1, features=trained.features, coords=trained.coords, pairs=pairs)


def score_split(
    network: nn.Module,
    loader: Loader,
    objective: Objective,
    *,
    progress: Progress | None = None,
    device: torch.device | None = None,
) -> dict[str, float]:
    """Loss and metrics over a loader's clouds, in evaluation mode."""
    scores = objective.scores()
    losses: list[float] = []
    for out, batch in embed(network, loader, progress=progress, device=device):
        has_truth = batch.positives is not None or not objective.needs_pairs
        if has_truth and objective.count(batch):
            losses.append(float(objective.loss(out, batch, normaliser=None, generator=None)))
        scores.add(out, batch)
    loss = sum(losses) / len(losses) if losses else float("nan")
    return {"loss": loss, **scores.result(), "n_clouds": float(len(loader))}


def embed(
    network: nn.Module,
    loader: Loader,
    *,
    progress: Progress | None = None,
    device: torch.device | None = None,
) -> Iterator[tuple[Tensor, Batch]]:
    """Outputs of the network for every batch of a loader, in evaluation mode without gradients."""
    listener = progress or Silent()
    listener.start("evaluating", len(loader), "cloud")
    was_training = network.training
    network.eval()
    try:
        for batch in loader:
            on_device = batch if device is None else batch.to(device)
            with torch.inference_mode(), memory_errors(_name_clouds(batch)):
                out = network(on_device.features, on_device.coords, on_device.offsets)
            yield out, on_device
            listener.advance(batch.n_clouds)
    finally:
        network.train(was_training)
        listener.finish()


def _name_clouds(batch: Batch) -> str:
    clouds = zip(batch.event_id.tolist(), batch.sector.tolist(), strict=True)
    names = ", ".join(f"event {event} sector {sector}" for event, sector in clouds)
    return f"{names} ({len(batch.features):,} points)"
