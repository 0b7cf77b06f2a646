"""Trained weights on disk: safetensors with everything needed to use them, and the state to go on training.

A weights file stands alone: its header holds the configuration, the task and the names of the inputs.
"""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from hepdata.errors import InputError
from hepdata.schema import SCHEMAS, TRACKING, ModelInput, Task
from hepdata.storage.atomic import write_atomically
from hept.config import TrainConfig, check_config
from hept.dataset_checks import input_names
from hept.network import Network, PlainMLP, focus_attention, silence_attention
from hept.published import load_published
from hept.run_folder import LAST, find_weights
from hept.systems.frame import Frame
from hept.systems.registry import build_model

N_CLASSES = 8


@dataclass(frozen=True)
class ModelCard:
    """What a weights file says about itself.

    Attributes:
        config: The resolved configuration of its training.
        features: Names of the feature columns, in order.
        coords: Names of the coordinate columns, in order.
        dataset: Fingerprint of the dataset it was trained on.
        epoch: Epochs trained.
        metrics: Validation metrics then.
    """

    config: dict[str, object]
    features: list[str]
    coords: list[str]
    dataset: str
    epoch: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class TrainedModel:
    """A network ready for use, with the task and inputs it was made for."""

    network: nn.Module
    task: Task
    features: list[str]
    coords: list[str]
    config: TrainConfig
    source: str


def build_network(config: TrainConfig, features: list[str], coords: list[str]) -> Network:
    """An untrained network for inputs of these names; weights are drawn from torch's generator."""
    model = config.model
    has_classes = "pid_class" in features
    frame = Frame(
        len(features),
        len(coords),
        model.out_dim,
        n_layers=model.n_layers,
        hidden_dim=model.hidden_dim,
        ff_dim=model.ff_dim,
        n_heads=model.n_heads,
        block_size=model.block_size,
        n_tables=model.n_tables,
        n_regions=model.n_regions,
        n_neighbors=model.n_neighbors,
        periods=find_periods(config.task, coords) if model.periodic_phi else {},
        kernel=model.kernel,
        tied_qk=model.tied_qk,
        encode_place=model.encode_place,
        head="classification" if config.task == "pileup" else "embedding",
        n_classes=N_CLASSES if has_classes else 0,
        class_feature=features.index("pid_class") if has_classes else -1,
        dropout=model.dropout,
    )
    body = _build_mlp(frame) if model.kind == "mlp" else build_model(model.kind, frame)
    if model.quiet_start:
        silence_attention(body)
    if model.start_width is not None:
        focus_attention(body, model.start_width)
    signed_log = [features.index(name) for name in config.data.signed_log if name in features]
    return Network(body, len(features), signed_log=signed_log)


def find_periods(task: Task, coords: list[str]) -> dict[int, float]:
    """Which coordinates are azimuths, and their period after scaling."""
    stored = SCHEMAS[task].coordinates
    if [entry.column for entry in stored] != coords:
        # As the loader does: a name has the scale of its first place among the stored coordinates.
        scales = {entry.column: entry for entry in reversed(stored)}
        stored = tuple(scales.get(name, ModelInput(name)) for name in coords)
    return {place: 2 * math.pi * entry.scale for place, entry in enumerate(stored) if entry.column == "phi"}


def _build_mlp(frame: Frame) -> PlainMLP:
    """A plain MLP with as many weights in its layers as HEPT has in its encoder and blocks."""
    hidden, ff = frame.hidden_dim, frame.ff_dim or frame.hidden_dim
    n_projections = 3 if frame.tied_qk else 4
    target = (frame.n_features + hidden) * ff
    target += frame.n_layers * (n_projections * frame.n_heads * hidden**2 + 2 * hidden * ff)
    width = 1
    while (frame.n_features + frame.coords_dim) * width + (frame.n_layers - 1) * width**2 < target:
        width += 1
    return PlainMLP(
        frame.n_features,
        frame.coords_dim,
        frame.out_dim,
        width=width,
        depth=frame.n_layers,
        is_classifier=frame.head == "classification",
        n_classes=frame.n_classes,
        class_feature=frame.class_feature,
        dropout=frame.dropout,
    )


def save_weights(path: Path, state: dict[str, Tensor], card: ModelCard) -> None:
    """Write weights and card; the file is whole or absent.

    Raises:
        JobError: No space, or no permission.
    """
    # safetensors refuses tensors that share memory, and views.
    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}
    with write_atomically(path) as file:
        file.write(save(tensors, metadata={"hept": json.dumps(asdict(card))}))


def load_model(source: str | Path) -> TrainedModel:
    """A trained model from a run folder, a weights file, or the published checkpoint (`.pt`).

    Raises:
        InputError: Nothing there, or a file that is damaged or not ours.
    """
    path = find_weights(source)
    if path.suffix == ".pt":
        return _published(path)
    try:
        with safe_open(path, "pt") as file:
            header = (file.metadata() or {}).get("hept")
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header is None:
            raise ValueError("no description of the model in its header")
        card = ModelCard(**json.loads(header))
        config = check_config(card.config, where=path)
        network = build_network(config, card.features, card.coords)
        network.load_state_dict(state)
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            path,
            found=f"a damaged checkpoint ({' '.join(str(error).split())[:200]})",
            expected="a weights file written by hept-train fit",
            remedy=f"use another, for instance {LAST} of the same run, or train again",
        ) from error
    return TrainedModel(network.eval(), config.task, card.features, card.coords, config, str(path))


def forget_training(trained: TrainedModel, *, seed: int) -> TrainedModel:
    """The same network with newly drawn weights: what training is measured against.

    The preparation of the features is kept; it comes from the data, not from training.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build_network(trained.config, trained.features, trained.coords)
    known = trained.network.state_dict()
    prepared = {name: known[name] for name in ("is_log", "shift", "scale")}
    network.load_state_dict(prepared, strict=False)
    return replace(trained, network=network.eval(), source=f"{trained.source} before training")


def _published(path: Path) -> TrainedModel:
    features, coords = input_names(TRACKING)
    # The published weights read scaled features as they are.
    return TrainedModel(
        load_published(path), "tracking", features, coords, TrainConfig(task="tracking"), str(path)
    )


def save_resume_state(path: Path, state: dict[str, object]) -> None:
    """Write what is needed to go on; the file is whole or absent.

    Raises:
        JobError: No space, or no permission.
    """
    with write_atomically(path) as file:
        torch.save(state, file)


def load_resume_state(path: Path) -> dict[str, object]:
    """Read what `save_resume_state` wrote.

    Raises:
        InputError: A damaged file.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, KeyError, ValueError) as error:
        raise InputError(
            path,
            found=f"a damaged state ({' '.join(str(error).split())[:200]})",
            expected="the state of a run",
            remedy="start the run again in another folder",
        ) from error
    return dict(state)
