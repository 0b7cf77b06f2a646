"""The folder of a training run: who made it, with what, and how it went.

config.yaml       the resolved configuration
run.json          dataset and its fingerprint, the model's inputs, seed, threads, versions, command
metrics.csv       one row an epoch
steps.csv         one row an optimiser step
tensorboard/      the same for TensorBoard
best.safetensors  last.safetensors
resume.pt         the newest state from which the run goes on; resume-1.pt, … are older ones
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hepdata.errors import InputError
from hepdata.schema import ModelInput
from hepdata.storage.atomic import disk_errors, write_atomically
from hept.model.hub import PACKAGED, fetch_weights, is_hub_address
from hept.settings.config import MOVED, check_config
from hept.settings.fields import TrainConfig
from hept.settings.yaml_text import parse_yaml

BEST, LAST, RESUME = "best.safetensors", "last.safetensors", "resume.pt"
VERSIONS = ("hept", "torch", "lightning-fabric", "numpy", "safetensors")


class RunFolder:
    """A run's files, at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = {name: path / f"{name}.csv" for name in ("metrics", "steps")}

    def is_begun(self, config: TrainConfig, *, resume: bool) -> bool:
        """Whether the folder holds a run to go on with; a new one can begin otherwise.

        Args:
            config: Of the run that is to begin or to go on.
            resume: Whether there must be a run; its settings are then the caller's business.

        Raises:
            InputError: Nothing to resume, a run with other settings, or files of something else.
        """
        if resume:
            find_states(self.path)
            return True
        if has_states(self.path):
            self._check_settings(config)
            return True
        self.check_unused()
        return False

    def create(self, config: TrainConfig, description: Mapping[str, object]) -> None:
        """Begin a new run.

        Raises:
            JobError: The folder cannot be written.
        """
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        versions = {"python": sys.version.split()[0]} | {name: _version(name) for name in VERSIONS}
        # The description first: `check_unused` takes settings without one for somebody else's.
        self._write_description(dict(description) | {"versions": versions, "command": sys.argv})
        with write_atomically(self.path / "config.yaml") as file:
            file.write(config.to_yaml().encode())

    def _check_settings(self, config: TrainConfig) -> None:
        kept = self.read_config()
        if kept != config:
            raise InputError(
                self.path,
                found=f"a run with other settings ({_name_difference(kept, config)})",
                expected="a new folder, or a run with the same settings",
                remedy=f"go on with it as it is with `resume={str(self.path)!r}`, or choose another `out`",
            )

    def check_unused(self) -> None:
        """See that a new run overwrites nothing but what a killed one wrote before its first state.

        Raises:
            InputError: It would.
        """
        found = [name for name in (BEST, "steps.csv", "metrics.csv") if (self.path / name).exists()]
        if not found and (self.path / "config.yaml").exists():
            try:
                is_ours = "fingerprint" in self.read_description()
            except InputError:
                is_ours = False
            found = [] if is_ours else ["config.yaml"]
        if found:
            raise InputError(
                self.path,
                found=f"{found[0]} without a saved state of a run",
                expected="a new folder, or a run that can go on",
                remedy="choose another `out`",
            )

    def read_config(self) -> TrainConfig:
        """The configuration that the run began with.

        Raises:
            InputError: Not a run folder, or one of an earlier version.
        """
        try:
            content = parse_yaml((self.path / "config.yaml").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                self.path,
                found="no readable config.yaml",
                expected="a run folder made by hept-train fit",
                remedy="check the path",
            ) from error
        moved = [key for key in MOVED if _has_setting(content, key)]
        if moved:
            raise InputError(
                self.path / "config.yaml",
                found=f"the setting {moved[0]!r} of an earlier version",
                expected="a run of this version",
                remedy="evaluate the run as it is, or begin another one",
            )
        return check_config(content, where=self.path / "config.yaml")

    def read_description(self) -> dict[str, object]:
        """What `run.json` says."""
        try:
            content = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                self.path,
                found="no readable run.json",
                expected="a run folder made by hept-train fit",
                remedy="check the path",
            ) from error
        return dict(content)

    def read_inputs(self) -> tuple[tuple[ModelInput, ...], tuple[ModelInput, ...]]:
        """Features and coordinates with which the run began.

        Raises:
            InputError: Not a run folder, or one of an earlier version.
        """
        description = self.read_description()
        try:
            features, coords = (
                tuple(ModelInput(**entry) for entry in description[kind])  # type: ignore[attr-defined]
                for kind in ("features", "coords")
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                self.path / "run.json",
                found="no inputs of the model, as in runs of earlier versions",
                expected="features and coords with scale, unit and period",
                remedy="evaluate the run as it is, or begin another one",
            ) from error
        return features, coords

    def read_threads(self) -> int | None:
        """Threads that the run used on a CPU; None where a run does not say, as old ones."""
        threads = self.read_description().get("threads")
        return threads if isinstance(threads, int) else None

    def keep_threads(self, threads: int) -> None:
        """Note that the run goes on with another number of threads."""
        if threads != self.read_threads():
            self._write_description(self.read_description() | {"threads": threads})

    def _write_description(self, content: Mapping[str, object]) -> None:
        with write_atomically(self.path / "run.json") as file:
            file.write((json.dumps(content, indent=2, default=str) + "\n").encode())

    def append(self, table: str, row: Mapping[str, object]) -> None:
        """Add a row to `metrics` or `steps`; the first row makes the header."""
        path = self._rows[table]
        with disk_errors(path), path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(row))
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow({name: _text(value) for name, value in row.items()})

    def read_rows(self, table: str) -> list[dict[str, str]]:
        """The rows of `metrics` or `steps`, empty where there are none yet."""
        path = self._rows[table]
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def forget_after(self, *, step: int, epoch: int) -> None:
        """Drop rows of steps and epochs after the last saved state of a killed run: it makes them again.

        Epochs have their own count: a state that was saved after the last step of an epoch is before its end.
        """
        for table, column, last in (("steps", "step", step), ("metrics", "epoch", epoch)):
            path = self._rows[table]
            rows = [row for row in self.read_rows(table) if (row.get(column) or "").isdigit()]
            kept = [row for row in rows if int(row[column]) <= last and None not in row.values()]
            if not kept:
                # A torn header would otherwise stay, and rows be added below it.
                with disk_errors(path):
                    path.unlink(missing_ok=True)
                continue
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(kept)
            with write_atomically(path) as file:
                file.write(text.getvalue().encode())


def has_states(folder: Path) -> bool:
    """Whether a run can go on in this folder."""
    return (folder / RESUME).exists() or any(_list_older(folder))


def find_states(folder: Path) -> list[Path]:
    """The saved states from which a run can go on, newest first.

    Raises:
        InputError: There is none.
    """
    found = [path for path in (folder / RESUME, *_list_older(folder)) if path.exists()]
    if not found:
        raise InputError(
            folder,
            found=f"no {RESUME}",
            expected="a run folder with a saved state",
            remedy="start the run without `resume`",
        )
    return found


def _list_older(folder: Path) -> list[Path]:
    ages = {path: path.stem.removeprefix("resume-") for path in folder.glob("resume-*.pt")}
    return sorted((path for path, age in ages.items() if age.isdigit()), key=lambda path: int(ages[path]))


def _name_difference(kept: TrainConfig, asked: TrainConfig) -> str:
    """The first setting that differs, with both values."""
    ours, theirs = _flatten(kept.model_dump()), _flatten(asked.model_dump())
    key = next(key for key in ours | theirs if ours.get(key) != theirs.get(key))
    return f"{key} = {ours.get(key)!r}, not {theirs.get(key)!r}"[:200]


def _flatten(content: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in content.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def find_weights(source: str | Path) -> Path:
    """The weights file behind a run folder (its best weights, else its last), a packaged model, or a file.

    Raises:
        InputError: There is none.
    """
    if is_hub_address(source):
        return fetch_weights(source)
    path = Path(source)
    if path.is_dir():
        names = [name for name in (BEST, LAST, PACKAGED) if (path / name).exists()]
        path = path / (names[0] if names else BEST)
    if not path.exists():
        raise InputError(
            source,
            found="no weights",
            expected=f"a run folder with {BEST}, a .safetensors file or the published .pt file",
            remedy="check the path, or train first with hept-train fit",
        )
    return path


def _has_setting(content: object, key: str) -> bool:
    section, _, name = key.partition(".")
    inner = content.get(section) if isinstance(content, dict) else None
    return isinstance(inner, dict) and name in inner


def _text(value: object) -> object:
    # repr keeps every digit of a float, so that two runs can be compared to the last one.
    return repr(value) if isinstance(value, float) else value


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
