"""The plan of `hept.fit`: arguments enter, a checked plan leaves; torch is imported last."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from hepdata.errors import InputError
from hepdata.loader.dataset import Dataset, DatasetLike, open_dataset
from hept.devices.choice import choose_device
from hept.model.dataset_checks import check_training, find_target
from hept.runs.folder import RunFolder, find_states, has_states
from hept.runs.run import Run
from hept.settings.load import Settings, load_config
from hept.settings.preset_choice import choose_preset, find_published
from hept.settings.train_config import TrainConfig

if TYPE_CHECKING:
    from hept.model.trained import TrainedModel

Announce = Callable[[str], None]


@dataclass(frozen=True)
class RunPlan:
    """A run that can start: its settings, its dataset and its folder."""

    config: TrainConfig
    dataset: Dataset
    run: Path


def plan_run(
    dataset: DatasetLike,
    preset: str | None,
    settings: Settings,
    out: Path | None,
    device: str,
    announce: Announce,
    init: TrainedModel | None = None,
) -> RunPlan:
    """Plan a new run; if preset or folder is not given, choose and announce it.

    With `init`, network and inputs are those of that model.

    Raises:
        InputError: Settings, dataset or folder cannot be used.
    """
    if preset is not None:
        load_config(preset, settings)
    opened = open_dataset(dataset)

    def configure(name: str) -> TrainConfig:
        config = load_config(name, settings, task=opened.task)
        return config if init is None else _take_network(config, settings, init)

    # Any preset of the task can check settings and dataset; finding a GPU needs torch and comes later.
    config = configure(preset or _choose_preset(opened, has_gpu=False))
    check_training(config, opened)
    check_logger(config)
    run = out or _choose_folder(opened.root.location)
    folder = RunFolder(run)
    if not has_states(run):
        folder.check_unused()
    if preset is None:
        preset = _announce_preset(opened, announce, has_gpu=has_gpu(device))
        config = configure(preset)
    else:
        warn_of_published(preset, device, announce)
    if folder.is_begun(config, resume=False):
        _say(f"continuing the run in {run}", announce)
    if out is None:
        _say(f"run folder: {run}", announce)
    return RunPlan(config, opened, run)


def plan_settings(
    dataset: DatasetLike, preset: str | None, settings: Settings, device: str
) -> tuple[TrainConfig, Dataset]:
    """Settings and dataset of a run that is not to begin yet.

    Raises:
        InputError: They cannot be used.
    """
    opened = open_dataset(dataset)
    name = preset or _choose_preset(opened, has_gpu=has_gpu(device))
    config = load_config(name, settings, task=opened.task)
    check_training(config, opened)
    return config, opened


def plan_resume(run: Path, dataset: DatasetLike | None) -> RunPlan:
    """Plan to continue a run, on its own dataset or on `dataset` if it was moved.

    Raises:
        InputError: No run with a saved state, or no dataset.
    """
    config = RunFolder(run).read_config()
    find_states(run)
    opened = Run(run).open_dataset() if dataset is None else open_dataset(dataset)
    check_training(config, opened)
    check_logger(config)
    return RunPlan(config, opened, run)


def has_gpu(device: str) -> bool:
    """Whether training would run on a GPU.

    Raises:
        InputError: The device is not there.
    """
    return device != "cpu" and choose_device(device).type != "cpu"


def warn_of_published(preset: str, device: str, announce: Announce) -> None:
    """On a CPU, point from a published preset to the one for laptops."""
    found = find_published(preset)
    if found is not None and not has_gpu(device):
        published, laptop = found
        _say(
            f"note: {published.name} is made for GPUs ({published.time}); "
            f"for a CPU use the preset {laptop.name} ({laptop.time})",
            announce,
        )


def count_points(dataset: Dataset) -> float:
    """Mean number of points in the clouds of a dataset."""
    statistics = dataset.manifest.statistics()
    return statistics.n_points / max(statistics.n_clouds, 1)


def check_logger(config: TrainConfig) -> None:
    """Check that the library of the run's logger is installed.

    Raises:
        InputError: It is not.
    """
    kind = config.logger
    if kind in ("wandb", "mlflow") and find_spec(kind) is None:
        raise InputError(
            f"setting logger={kind}",
            found=f"{kind} is not installed",
            expected="its library",
            remedy=f"pip install 'hept[{kind}]', or choose logger=tensorboard",
        )


# Settings of the network that any weights can be used with.
_NOT_OF_WEIGHTS = ("backend", "block_size", "dropout")


def _take_network(config: TrainConfig, settings: Settings, init: TrainedModel) -> TrainConfig:
    """The configuration with network and inputs of a trained model."""
    keys = list(settings) if isinstance(settings, Mapping) else [text.partition("=")[0] for text in settings]
    fixed = [key for key in keys if key.startswith("model.") or key in ("data.features", "data.coords")]
    fixed = [key for key in fixed if key.removeprefix("model.") not in _NOT_OF_WEIGHTS]
    if fixed:
        raise InputError(
            f"setting {fixed[0]}",
            found="a setting of the network together with `init`",
            expected="the network and the inputs of the given weights",
            remedy="leave it out, or train from the beginning",
        )
    if init.task != config.task:
        raise InputError(
            init.source,
            found=f"weights for {init.task}",
            expected=f"weights for {config.task}",
            remedy="choose another preset, or other weights",
        )
    inputs = {
        name: [asdict(replace(entry, standardise=False)) for entry in entries]
        for name, entries in (("features", init.features), ("coords", init.coords))
    }
    given = {"backend"} | {key.removeprefix("model.") for key in keys if key.startswith("model.")}
    model = init.config.model.model_copy(update={name: getattr(config.model, name) for name in given})
    return config.model_copy(update={"model": model, "data": config.data.model_copy(update=inputs)})


def _choose_preset(dataset: Dataset, *, has_gpu: bool) -> str:
    objective = find_target(dataset).objective
    return choose_preset(dataset.task, count_points(dataset), has_gpu=has_gpu, objective=objective).name


def _announce_preset(dataset: Dataset, announce: Announce, *, has_gpu: bool) -> str:
    name = _choose_preset(dataset, has_gpu=has_gpu)
    device = "a GPU" if has_gpu else "a CPU"
    _say(
        f"preset: {name}, for {dataset.task} with {count_points(dataset):,.0f} points per cloud on {device} "
        "(hept-train presets lists all)",
        announce,
    )
    return name


def _choose_folder(dataset: str) -> Path:
    name = Path(dataset).name or Path(dataset).resolve().name
    return next(path for n in count(1) if not (path := Path("runs") / f"{name}-{n}").exists())


def _say(line: str, announce: Announce) -> None:
    # With several processes, each runs the whole program; only rank 0 prints.
    ranks = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    if all(os.environ.get(name, "0") == "0" for name in ranks):
        announce(line)
