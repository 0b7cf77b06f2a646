"""Trained weights on disk: safetensors with everything needed to use them.

A weights file is self-contained: its header holds configuration, objective, inputs and a checksum.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hepdata.errors import InputError
from hepdata.schema import TRACKING, ModelInput
from hepdata.storage.atomic import write_atomically
from hept.model.build import build_network
from hept.model.checksums import digest_weights
from hept.model.hub import PACKAGED
from hept.model.published_weights import load_published
from hept.model.trained import ModelLike, TrainedModel
from hept.objectives.classification import read_score_map
from hept.objectives.objective import find_objective
from hept.runs.folder import BEST, LAST, find_weights
from hept.settings.load import check_config
from hept.settings.train_config import TrainConfig

# Version 1 had no version number and stored only names of inputs; version 2 had no checksum.
CARD_VERSION = 3


@dataclass(frozen=True)
class ModelCard:
    """Description of a model in the header of its weights file.

    Attributes:
        config: The resolved configuration of its training.
        objective: Name of the objective, see `hept.objectives.objective`.
        features: Its features, in order.
        coords: Its coordinates, in order.
        dataset: Fingerprint of the dataset it was trained on.
        epoch: Epochs trained.
        metrics: Validation metrics at that epoch.
        version: Version of this description.
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
    def parse(cls, text: str) -> ModelCard:
        """Parse the card in a header.

        Raises:
            ValueError, TypeError, KeyError: The text is not a card.
        """
        content = json.loads(text)
        for kind in ("features", "coords"):
            content[kind] = tuple(ModelInput(**entry) for entry in content[kind])
        return cls(**content)


def save_weights(path: Path, state: dict[str, Tensor], card: ModelCard) -> None:
    """Write weights and card atomically.

    Raises:
        JobError: No space, or no permission.
    """
    # safetensors refuses tensors that share memory, and views.
    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}
    text = json.dumps(asdict(card))
    with write_atomically(path) as file:
        file.write(save(tensors, metadata={"hept": text, "sha256": digest_weights(tensors, text)}))


def load_model(source: ModelLike) -> TrainedModel:
    """Load a trained model from a run, a packaged folder, a hub, a weights file, or the published `.pt`.

    Reads only numbers and their description; executes nothing.

    Args:
        source: A run or its folder (loads the best weights), a folder of `hept-train package`, its address
            on a hub (`hf://user/name`), or a file. A loaded model is returned unchanged.

    Raises:
        InputError: The file does not exist, is damaged, or is not a weights file of hept.
    """
    if isinstance(source, TrainedModel):
        return source
    path = find_weights(os.fspath(source))
    if path.suffix == ".pt":
        return _published(path)
    try:
        header, state = _read_weights(path)
        card = ModelCard.parse(header)
        config = check_config(card.config, where=path)
        if path.name == PACKAGED:
            _check_imported(path, config.model.kind)
        is_embedding = find_objective(card.objective).is_embedding
        # The kernel that trained it need not be there where it is used.
        model = config.model.model_copy(update={"backend": "auto"})
        network = build_network(model, card.features, card.coords, is_embedding=is_embedding)
        network.load_state_dict(state)
    except KeyError as error:
        raise InputError(
            path,
            found=f"a description of the model in which {error} is missing or unknown",
            expected="inputs, task and settings of this version",
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
        network.eval(),
        config.task,
        card.objective,
        card.features,
        card.coords,
        config,
        str(path),
        calibration=read_score_map(card.metrics),
    )


def _check_imported(path: Path, kind: str) -> None:
    """See that weights from somebody else import no module that their user has not imported."""
    module = kind.partition(":")[0]
    if ":" in kind and module not in sys.modules:
        raise InputError(
            path,
            found=f"a model of the kind {kind!r}, which is code of another package",
            expected="a package that you know",
            remedy=f"if you trust it, install it and run `import {module}` before loading the model",
        )


def read_card(path: Path) -> ModelCard:
    """What a weights file says about itself.

    Raises:
        InputError: A file that is damaged or not ours.
    """
    try:
        return ModelCard.parse(_read_weights(path)[0])
    except (*_DAMAGES, KeyError) as error:
        raise InputError(
            path,
            found=f"no readable description ({' '.join(str(error).split())[:200]})",
            expected="a weights file written by hept-train fit",
            remedy="use a copy, or train again",
        ) from error


# Exceptions raised when a damaged file is read.
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
    """The remedy for damaged weights: other weights of the same run, if they are intact."""
    for name in (BEST, LAST):
        other = path.with_name(name)
        if other == path or not other.exists():
            continue
        try:
            _read_weights(other)
        except (*_DAMAGES, InputError):
            continue
        return f"use {other}, which is intact, instead of the run folder"
    return "use a copy, or train again"


def _check_version(path: Path, version: int) -> None:
    if version < 2:
        raise InputError(
            path,
            found="weights of version 1, which name their inputs without scales and periods",
            expected=f"weights of version 2 or {CARD_VERSION}",
            remedy="train again with this version, or use the one that wrote them",
        )
    if version > CARD_VERSION:
        raise InputError(
            path,
            found=f"weights of version {version}",
            expected=f"at most {CARD_VERSION}, the newest that this hept reads",
            remedy="update with: pip install --upgrade hept",
        )


def _published(path: Path) -> TrainedModel:
    # The published weights take scaled columns without standardisation, and have no periodic coordinates.
    coords = tuple(replace(entry, period=None) for entry in TRACKING.coordinates)
    config = TrainConfig(task=TRACKING.task)
    return TrainedModel(
        load_published(path), TRACKING.task, "pairs", TRACKING.features, coords, config, str(path)
    )
