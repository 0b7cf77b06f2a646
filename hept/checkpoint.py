"""Trained weights on disk: safetensors with everything needed to use them.

A weights file stands alone: its header holds the configuration, the objective, the inputs and a checksum.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import overload

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.loader.batch import Batch
from hepdata.loader.split import Split
from hepdata.schema import TRACKING, ModelInput
from hepdata.storage.atomic import write_atomically
from hept.checksums import digest_weights
from hept.config import check_config
from hept.dataset_checks import check_fit
from hept.inference import prepare_batch
from hept.network import Network, PlainMLP, focus_attention, silence_attention
from hept.objective import find_objective
from hept.old_weights import is_old, renew_header
from hept.published import load_published
from hept.run_folder import BEST, LAST, find_weights
from hept.settings import ModelConfig, TrainConfig
from hept.systems.frame import Frame
from hept.systems.registry import build_model

# Version 1 had no number, and named its inputs only; version 2 had no checksum.
CARD_VERSION = 3


@dataclass(frozen=True)
class ModelCard:
    """What a weights file says about itself.

    Attributes:
        config: The resolved configuration of its training.
        objective: What its outputs are, see `hept.objective`.
        features: Its features, in order.
        coords: Its coordinates, in order.
        dataset: Fingerprint of the dataset it was trained on.
        epoch: Epochs trained.
        metrics: Validation metrics then.
        version: Of this description.
    """

    config: dict[str, object]
    objective: str
    features: tuple[ModelInput, ...]
    coords: tuple[ModelInput, ...]
    dataset: str
    epoch: int
    metrics: dict[str, float]
    version: int = CARD_VERSION

    @classmethod
    def parse(cls, text: str, state: dict[str, Tensor]) -> ModelCard:
        """The card in a header; tensors of `state` that an earlier version kept there go into the inputs.

        Raises:
            ValueError, TypeError, KeyError: Not a card.
        """
        content = json.loads(text)
        if is_old(content):
            content = renew_header(content, state)
        for kind in ("features", "coords"):
            content[kind] = tuple(ModelInput(**entry) for entry in content[kind])
        return cls(**content)


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


def build_network(
    model: ModelConfig, features: Sequence[ModelInput], coords: Sequence[ModelInput], *, is_embedding: bool
) -> Network:
    """An untrained network for these inputs; weights are drawn from torch's generator.

    Raises:
        InputError: More than one feature names classes, or a coordinate does.
    """
    class_feature = _find_class(features, coords)
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
        periods=find_periods(coords),
        kernel=model.kernel,
        tied_qk=model.tied_qk,
        encode_place=model.encode_place,
        head="embedding" if is_embedding else "classification",
        n_classes=features[class_feature].n_classes if class_feature is not None else 0,
        class_feature=-1 if class_feature is None else class_feature,
        dropout=model.dropout,
    )
    body = _build_mlp(frame) if model.kind == "mlp" else build_model(model.kind, frame)
    if model.quiet_start:
        silence_attention(body)
    if model.start_width is not None:
        focus_attention(body, model.start_width)
    return Network(body, features, coords)


def find_periods(coords: Sequence[ModelInput]) -> dict[int, float]:
    """Period by position, for the coordinates that are angles."""
    return {i: entry.final_period for i, entry in enumerate(coords) if entry.final_period is not None}


def _find_class(features: Sequence[ModelInput], coords: Sequence[ModelInput]) -> int | None:
    found = [i for i, entry in enumerate(features) if entry.n_classes]
    named = [entry.column for entry in coords if entry.n_classes]
    if len(found) > 1 or named:
        raise InputError(
            "data.coords" if named else "data.features",
            found=f"the classes {', '.join(named or [features[i].column for i in found])}",
            expected="coordinates that are numbers" if named else "one feature at most that names classes",
            remedy="leave it out, or take it for a number with n_classes: 0",
        )
    return found[0] if found else None


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
    text = json.dumps(asdict(card))
    with write_atomically(path) as file:
        file.write(save(tensors, metadata={"hept": text, "sha256": digest_weights(tensors, text)}))


# How functions are told which model is meant: a run or its folder, a weights file, or the loaded model.
ModelLike = str | os.PathLike[str] | TrainedModel


def load_model(source: ModelLike) -> TrainedModel:
    """A trained model from a run, a weights file, or the published checkpoint (`.pt`).

    Args:
        source: A run or its folder (its best weights are taken), or a file. A loaded model is given back.

    Raises:
        InputError: Nothing there, or a file that is damaged or not ours.
    """
    if isinstance(source, TrainedModel):
        return source
    path = find_weights(os.fspath(source))
    if path.suffix == ".pt":
        return _published(path)
    try:
        header, state = _read_weights(path)
        card = ModelCard.parse(header, state)
        config = check_config(card.config, where=path)
        is_embedding = find_objective(card.objective).is_embedding
        network = build_network(config.model, card.features, card.coords, is_embedding=is_embedding)
        network.load_state_dict(state)
    except KeyError as error:
        raise InputError(
            path,
            found=f"a description of the model in which {error} is missing or unknown",
            expected="inputs, task and settings that this version knows",
            remedy="train again with this version",
        ) from error
    except _DAMAGES as error:
        raise InputError(
            path,
            found=f"a damaged checkpoint ({' '.join(str(error).split())[:200]})",
            expected="a weights file written by hept-train fit",
            remedy=_name_next_good(path),
        ) from error
    return TrainedModel(
        network.eval(), config.task, card.objective, card.features, card.coords, config, str(path)
    )


# What reading a damaged file raises.
_DAMAGES = (SafetensorError, OSError, ValueError, TypeError, RuntimeError, AttributeError)


def _read_weights(path: Path) -> tuple[str, dict[str, Tensor]]:
    """Description and tensors of a weights file whose checksum matches."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header, digest = metadata.get("hept"), metadata.get("sha256")
    if header is None:
        raise ValueError("no description of the model in its header")
    if digest is not None and digest != digest_weights(state, header):
        raise ValueError("its checksum does not match")
    version = json.loads(header).get("version", 1)
    _check_version(path, version)
    if digest is None and version > 2:
        raise ValueError("no checksum in its header")
    return header, state


def _name_next_good(path: Path) -> str:
    """The remedy for damaged weights: other weights of the same run, where they are whole."""
    for name in (BEST, LAST):
        other = path.with_name(name)
        if other == path or not other.exists():
            continue
        try:
            _read_weights(other)
        except (*_DAMAGES, InputError):
            continue
        return f"use {other}, which is whole, in place of the run folder"
    return "use a copy, or train again"


def _check_version(path: Path, version: int) -> None:
    if version > CARD_VERSION:
        raise InputError(
            path,
            found=f"weights of version {version}",
            expected=f"at most {CARD_VERSION}, the newest that this hept reads",
            remedy="update with: pip install --upgrade hept",
        )


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


def _published(path: Path) -> TrainedModel:
    # The published weights read scaled columns as they are, and know no periods.
    coords = tuple(replace(entry, period=None) for entry in TRACKING.coordinates)
    config = TrainConfig(task=TRACKING.task)
    return TrainedModel(
        load_published(path), TRACKING.task, "pairs", TRACKING.features, coords, config, str(path)
    )
