"""Where the figures of a run go besides its tables: TensorBoard, Weights & Biases, MLflow, or nowhere.

Each is the service's own library, imported only for a run that asks for it. Its own environment variables
(WANDB_MODE, WANDB_PROJECT, MLFLOW_TRACKING_URI, …) decide where figures go.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from hepdata.errors import InputError
from hepdata.storage.atomic import write_atomically
from hept.settings.listing import read_setting
from hept.settings.train_config import TrainConfig, list_keys
from hept.training.scalars import ScalarFile

# Identifier of the run at the service, so that a resumed run continues there.
ID_FILE = "logger-id.txt"
PROJECT = "hept"
# Largest numbers of metrics and parameters in one call of the service.
MLFLOW_METRICS, MLFLOW_PARAMS = 1000, 100


REMEDIES = {
    "wandb": "run `wandb login`, or set WANDB_MODE=offline to keep the figures in the run folder",
    "mlflow": "set MLFLOW_TRACKING_URI to a server or a folder (file:/path)",
}


class Logger(Protocol):
    """Takes in scalars."""

    def add(self, name: str, value: float, step: int) -> None:
        """Add a value."""

    def flush(self) -> None:
        """Send what has been added."""

    def close(self) -> None:
        """Send what is left; the run has ended or stops for now."""


def open_logger(config: TrainConfig, folder: Path, announce: Callable[[str], None]) -> Logger:
    """The logger of a run.

    Args:
        config: Whose setting `logger` chooses, and whose settings the service shows.
        folder: The run folder.
        announce: Told once if the service fails; training goes on.

    Raises:
        InputError: The library is not installed, or the service refuses the run.
        JobError: A file cannot be written.
    """
    kind = config.logger
    if kind == "tensorboard":
        return ScalarFile(folder / "tensorboard")
    if kind == "csv":
        return NoLogger()
    settings = {name: read_setting(config, name) for name in list_keys()}
    try:
        make = WandbLogger if kind == "wandb" else MlflowLogger
        return Forgiving(make(folder, settings), kind, announce)
    except OSError:
        raise
    except Exception as error:
        # Each library has errors of its own.
        raise InputError(
            f"setting logger={kind}",
            found=f"{type(error).__name__}: {' '.join(str(error).split())}"[:300],
            expected=f"a run that {kind} accepts",
            remedy=REMEDIES[kind],
        ) from error


class NoLogger:
    """Keeps nothing: the tables of the run have everything."""

    def add(self, name: str, value: float, step: int) -> None:
        """Ignore a value."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class WandbLogger:
    """Weights & Biases; its files are in the run folder."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        import wandb

        identity = _read_identity(folder) or uuid.uuid4().hex[:12]
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=folder.resolve().name,
            id=identity,
            resume="allow",
            dir=str(folder),
            config=dict(settings),
        )
        _keep_identity(folder, identity)

    def add(self, name: str, value: float, step: int) -> None:
        """Add a value; those of a step are sent together."""
        self._run.log({name: value}, step=step)

    def flush(self) -> None:
        """Nothing to do: its own process sends."""

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


class MlflowLogger:
    """MLflow, with values sent in batches."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._client, self._metric = MlflowClient(), Metric
        self._waiting: list[Any] = []
        identity = _read_identity(folder)
        if identity is not None:
            self._id = identity
            self._client.set_terminated(identity, "RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        self._id = str(self._client.create_run(experiment, run_name=folder.resolve().name).info.run_id)
        params = [Param(key, str(value)[:500]) for key, value in settings.items()]
        for begin in range(0, len(params), MLFLOW_PARAMS):
            self._client.log_batch(self._id, params=params[begin : begin + MLFLOW_PARAMS])
        _keep_identity(folder, self._id)

    def add(self, name: str, value: float, step: int) -> None:
        """Add a value."""
        # MLflow takes no @ in names: ap@0.9 is ap_at_0.9.
        self._waiting.append(self._metric(name.replace("@", "_at_"), value, int(time.time() * 1000), step))
        if len(self._waiting) >= MLFLOW_METRICS:
            self.flush()

    def flush(self) -> None:
        """Send the values that wait."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._client.log_batch(self._id, metrics=waiting)

    def close(self) -> None:
        """Send what is left."""
        self.flush()
        self._client.set_terminated(self._id)


class Forgiving:
    """Another logger whose failure is told once and does not end a training of days."""

    def __init__(self, logger: Logger, kind: str, announce: Callable[[str], None]) -> None:
        self._logger: Logger | None = logger
        self._kind, self._announce = kind, announce

    def add(self, name: str, value: float, step: int) -> None:
        """Add a value."""
        self._try(lambda logger: logger.add(name, value, step))

    def flush(self) -> None:
        """Send what has been added."""
        self._try(lambda logger: logger.flush())

    def close(self) -> None:
        """Send what is left."""
        self._try(lambda logger: logger.close())

    def _try(self, call: Callable[[Logger], None]) -> None:
        if self._logger is None:
            return
        try:
            call(self._logger)
        except Exception as error:
            self._logger = None
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
            self._announce(
                f"warning: {self._kind} failed ({reason}); training goes on without it, "
                "metrics.csv and steps.csv have all figures"
            )


def _read_identity(folder: Path) -> str | None:
    path = folder / ID_FILE
    return path.read_text(encoding="utf-8").strip() or None if path.exists() else None


def _keep_identity(folder: Path, identity: str) -> None:
    with write_atomically(folder / ID_FILE) as file:
        file.write(f"{identity}\n".encode())
