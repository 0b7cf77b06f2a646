"""The choice of a preset: what each is for, and which one fits a dataset and a machine.

Every preset describes itself in the section `about` of its YAML file.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hepdata.errors import InputError
from hepdata.schema import SCHEMAS
from hept.settings.load import list_presets, load_config, read_about
from hept.settings.train_config import ANY_TASK


class PresetCard(BaseModel):
    """What a preset is for; all but name, task and epochs are in the section `about` of its file.

    Attributes:
        name: Value of `preset`.
        task: Task of the datasets it is made for.
        purpose: Purpose in a few words.
        points: Approximate points per cloud that it is made for.
        device: "cpu" for settings that a laptop trains in minutes, "gpu" for the published ones.
        epochs: Number of epochs.
        time: How long the training takes.
        is_automatic: Whether it may be chosen where none is named; False if not every dataset has its inputs.
        objective: Of the datasets that a preset for any task is made for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    task: str
    purpose: str
    points: int = Field(ge=1)
    device: Literal["cpu", "gpu"]
    epochs: int
    time: str
    is_automatic: bool = True
    objective: Literal["pairs", "classification"] | None = None


def describe_presets() -> list[PresetCard]:
    """All presets of the package: by task, the smallest clouds first."""
    cards = []
    for name in list_presets():
        config = load_config(name)
        given = {"name": name, "task": config.task, "epochs": config.epochs, **read_about(name)}
        cards.append(PresetCard.model_validate(given))
    tasks = [*SCHEMAS, ANY_TASK]
    return sorted(cards, key=lambda card: (tasks.index(card.task), card.points, card.device))


def choose_preset(task: str, points: float, *, has_gpu: bool, objective: str | None = None) -> PresetCard:
    """Choose the preset whose cloud size is closest.

    Without a GPU, only presets that a CPU trains in minutes are considered; with a GPU, the published preset
    is preferred among presets for the same size.

    Args:
        task: Task of the dataset.
        points: Mean number of points in its clouds.
        has_gpu: Whether training runs on a GPU.
        objective: Of the dataset, by which the preset for a task of its own is chosen.

    Raises:
        InputError: There is no preset for the task.
    """
    cards = describe_presets()
    offered = [
        card
        for card in cards
        if card.task == task and card.is_automatic and (has_gpu or card.device == "cpu")
    ]
    if not any(card.task == task for card in cards):
        offered = [card for card in cards if card.task == ANY_TASK and card.objective == objective]
    if not offered:
        raise InputError(
            f"task {task!r}",
            found="no preset for this task",
            expected=f"a dataset of one of {', '.join(SCHEMAS)}, or settings of your own",
            remedy="name a .yaml file with `preset`",
        )
    return min(
        offered, key=lambda card: (abs(math.log(card.points / max(points, 1.0))), card.device == "cpu")
    )


def find_published(preset: str) -> tuple[PresetCard, PresetCard] | None:
    """A published preset and its replacement for a CPU; None if `preset` is not a published one."""
    for card in describe_presets():
        if card.name == preset and card.device == "gpu":
            return card, choose_preset(card.task, card.points, has_gpu=False)
    return None
