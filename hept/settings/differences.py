"""Settings side by side: configurations enter, the settings in which they differ leave."""

from __future__ import annotations

from collections.abc import Sequence

from hept.settings.listing import read_setting
from hept.settings.load import list_presets, load_config
from hept.settings.train_config import TrainConfig, list_keys


def list_differences(configs: Sequence[TrainConfig]) -> dict[str, list[object]]:
    """By dotted name, the values of every setting that is not the same in all configurations."""
    table = {key: [read_setting(config, key) for config in configs] for key in list_keys()}
    return {key: values for key, values in table.items() if any(value != values[0] for value in values)}


def find_nearest_preset(config: TrainConfig) -> tuple[str, dict[str, list[object]]] | None:
    """The preset of the same task with the fewest other settings, and those: [preset's, configuration's].

    None if there is no preset for the task.
    """
    found = [
        (name, list_differences([preset, config]))
        for name in list_presets()
        if (preset := load_config(name)).task == config.task
    ]
    return min(found, key=lambda entry: len(entry[1]), default=None)
