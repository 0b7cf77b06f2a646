"""What `hept-train fit` is about to do: arguments enter, a checked plan leaves, and torch is asked last."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from .tables import console

if TYPE_CHECKING:
    from hepdata.loader.dataset import Dataset
    from hept.config import TrainConfig


@dataclass(frozen=True)
class RunPlan:
    """A run that can begin: its settings, its dataset and its folder."""

    config: TrainConfig
    dataset: str
    run: Path


def plan_run(
    dataset: str, preset: str | None, changes: Sequence[str], out: Path | None, accelerator: str
) -> RunPlan:
    """A new run; where the preset or the folder is not given, choose it and say so.

    Raises:
        InputError: Settings, dataset or folder cannot be used.
    """
    from hepdata.loader.dataset import open_dataset
    from hept.config import load_config
    from hept.dataset_checks import check_training
    from hept.run_folder import RunFolder, has_states

    if preset is not None:
        load_config(preset, changes)
    opened = open_dataset(dataset)
    # Any preset of the task shows whether settings and dataset fit: devices, which need torch, come after.
    config = load_config(preset or _choose_preset(opened, has_gpu=False), changes)
    check_training(config, opened)
    run = out or _choose_folder(dataset)
    folder = RunFolder(run)
    if not has_states(run):
        folder.check_unused()
    if preset is None:
        preset = _announce_preset(opened, has_gpu=has_gpu(accelerator))
        config = load_config(preset, changes)
    else:
        warn_of_published(preset, accelerator)
    if folder.is_begun(config, resume=False):
        _say(f"going on with the run in {run}")
    if out is None:
        _say(f"run folder: {run} (--out sets another)")
    return RunPlan(config, dataset, run)


def plan_resume(run: Path, dataset: str | None) -> RunPlan:
    """A run to go on with, on its own dataset or where that lies now.

    Raises:
        InputError: No run with a saved state, or no dataset.
    """
    from hepdata.loader.dataset import open_dataset
    from hept.dataset_checks import check_training
    from hept.run_folder import RunFolder, find_states

    folder = RunFolder(run)
    config = folder.read_config()
    find_states(run)
    location = dataset or str(folder.read_description()["dataset"])
    check_training(config, open_dataset(location))
    return RunPlan(config, location, run)


def has_gpu(accelerator: str) -> bool:
    """Whether training would run on a GPU."""
    if accelerator != "auto":
        return accelerator != "cpu"
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()


def warn_of_published(preset: str, accelerator: str) -> None:
    """On a CPU, name the preset for laptops beside a published one."""
    from hept.preset_choice import find_published

    found = find_published(preset)
    if found is not None and not has_gpu(accelerator):
        published, laptop = found
        _say(
            f"note: {published.name} is made for GPUs ({published.time}); "
            f"for a CPU there is --preset {laptop.name} ({laptop.time})"
        )


def count_points(dataset: Dataset) -> float:
    """Mean number of points in the clouds of a dataset."""
    statistics = dataset.manifest.statistics()
    return statistics.n_points / max(statistics.n_clouds, 1)


def _choose_preset(dataset: Dataset, *, has_gpu: bool) -> str:
    from hept.preset_choice import choose_preset

    return choose_preset(dataset.task, count_points(dataset), has_gpu=has_gpu).name


def _announce_preset(dataset: Dataset, *, has_gpu: bool) -> str:
    name = _choose_preset(dataset, has_gpu=has_gpu)
    device = "a GPU" if has_gpu else "a CPU"
    _say(
        f"preset: {name}, for {dataset.task} with {count_points(dataset):,.0f} points a cloud on {device} "
        "(--preset sets another; hept-train presets lists all)"
    )
    return name


def _choose_folder(dataset: str) -> Path:
    name = Path(dataset).name or Path(dataset).resolve().name
    return next(path for n in count(1) if not (path := Path("runs") / f"{name}-{n}").exists())


def _say(line: str) -> None:
    # Of several processes, each of which runs this command, one speaks.
    ranks = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    if all(os.environ.get(name, "0") == "0" for name in ranks):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
