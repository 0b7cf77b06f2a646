"""The folder of a training run.

config.yaml       the resolved configuration
run.json          dataset and its fingerprint, the model's inputs, seed, threads, versions, command
metrics.csv       one row per epoch
steps.csv         one row per optimiser step
tensorboard/      the same for TensorBoard
best.safetensors  weights of the best epoch
last.safetensors  weights of the last epoch
resume.pt         the newest saved state; resume-1.pt, … are older ones
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hepdata.errors import InputError
from hepdata.readers.trackml_files import refuse_endless
from hepdata.schema import ModelInput
from hepdata.storage.atomic import disk_errors, write_atomically
from hepdata.yaml_text import parse_yaml, read_yaml
from hept.model.hub import PACKAGED, fetch_weights, is_hub_address
from hept.model.kept import find_kept, list_kept
from hept.runs.tables import append_row, cut_table, read_table
from hept.settings.load import check_config
from hept.settings.train_config import TrainConfig

BEST, LAST, RESUME = "best.safetensors", "last.safetensors", "resume.pt"
# What the rows of a table are counted by.
_KEYS = {"metrics": "epoch", "steps": "step"}
VERSIONS = ("hept", "torch", "lightning-fabric", "numpy", "safetensors")


class RunFolder:
    """A run's files, at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tables = {name: path / f"{name}.csv" for name in _KEYS}

    def is_begun(self, config: TrainConfig, *, resume: bool) -> bool:
        """Whether the folder holds a run to continue; otherwise a new run can start in it.

        Args:
            config: Configuration of the run to start or continue.
            resume: Whether a run must exist; its settings are then not compared with `config`.

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
        """Write the files of a new run.

        Raises:
            JobError: The folder cannot be written.
        """
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        versions = {"python": sys.version.split()[0]} | {name: _version(name) for name in VERSIONS}
        settings = config.to_yaml()
        origin = {"versions": versions, "command": sys.argv, "settings": _digest(parse_yaml(settings))}
        # run.json first: `check_unused` does not accept a config.yaml without it as a run.
        self._write_description(dict(description) | origin)
        with write_atomically(self.path / "config.yaml") as file:
            file.write(settings.encode())

    def _check_settings(self, config: TrainConfig) -> None:
        kept = self.read_config()
        if kept != config:
            raise InputError(
                self.path,
                found=f"a run with other settings ({_name_difference(kept, config)})",
                expected="a new folder, or a run with the same settings",
                remedy=f"continue it unchanged with `resume={str(self.path)!r}`, or choose another `out`",
            )

    def check_unused(self) -> None:
        """Check that a new run overwrites only files of a run that was killed before its first saved state.

        Raises:
            InputError: It would overwrite other files.
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
                expected="a new folder, or a run that can be continued",
                remedy="choose another `out`",
            )

    def read_config(self) -> TrainConfig:
        """The configuration with which the run started.

        Raises:
            InputError: Not a run folder, or the file was changed.
        """
        try:
            content = read_yaml(self.path / "config.yaml")
        except (OSError, ValueError) as error:
            raise InputError(
                self.path,
                found="no readable config.yaml",
                expected="a run folder made by hept-train fit",
                remedy="check the path",
            ) from error
        if self.read_description().get("settings", _digest(content)) != _digest(content):
            raise InputError(
                self.path / "config.yaml",
                found="settings that were changed since the run began",
                expected="those that it began with: its state belongs to them",
                remedy="restore the file from a copy, or begin another run with the new settings",
            )
        return check_config(content, where=self.path / "config.yaml")

    def read_description(self) -> dict[str, object]:
        """The content of `run.json`.

        Raises:
            InputError: Not a run folder, or the file is damaged.
        """
        try:
            content = dict(json.loads((self.path / "run.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise InputError(
                self.path,
                found="no readable run.json",
                expected="a run folder made by hept-train fit",
                remedy="check the path",
            ) from error
        # Earlier versions wrote no checksum.
        checksum = content.pop("sha256", None)
        if checksum not in (None, _digest(content)):
            raise InputError(
                self.path / "run.json",
                found="a damaged file (its checksum does not match)",
                expected="the description that the run began with",
                remedy="restore the file from a copy; the weights can be used without it",
            )
        return content

    def read_inputs(self) -> tuple[tuple[ModelInput, ...], tuple[ModelInput, ...]]:
        """Features and coordinates with which the run started.

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
                remedy="only evaluate the run, or start another one",
            ) from error
        return features, coords

    def read_threads(self) -> int | None:
        """Number of threads of the run on a CPU; None for old runs, which did not record it."""
        threads = self.read_description().get("threads")
        return threads if isinstance(threads, int) else None

    def keep_threads(self, threads: int) -> None:
        """Record that the run continues with another number of threads."""
        if threads != self.read_threads():
            self._write_description(self.read_description() | {"threads": threads})

    def _write_description(self, content: Mapping[str, object]) -> None:
        # As it is read again: a checksum over tuples and paths would not be found again.
        plain = json.loads(json.dumps(content, default=str))
        with write_atomically(self.path / "run.json") as file:
            file.write((json.dumps(plain | {"sha256": _digest(plain)}, indent=2) + "\n").encode())

    def append(self, table: str, row: Mapping[str, object]) -> None:
        """Add a row to `metrics` or `steps`; the first row makes the header."""
        append_row(self._tables[table], row)

    def read_rows(self, table: str) -> list[dict[str, str]]:
        """The rows of `metrics` or `steps` that are whole; empty where there are none yet.

        Raises:
            InputError: The table is damaged as a whole.
        """
        return read_table(self._tables[table], _KEYS[table])

    def forget_after(self, *, step: int, epoch: int) -> None:
        """Drop rows after the last saved state of a killed run, since the run repeats these steps and epochs.

        Epochs are compared separately: a state saved after the last step of an epoch precedes its end.
        """
        for table, last in (("steps", step), ("metrics", epoch)):
            cut_table(self._tables[table], _KEYS[table], last)


def has_states(folder: Path) -> bool:
    """Whether this folder has a saved state to continue from."""
    return (folder / RESUME).exists() or any(_list_older(folder))


def find_states(folder: Path) -> list[Path]:
    """The saved states from which a run can continue, newest first.

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
    """The weights file of a run folder (the best, else the last), of a packaged model, or the given file.

    The names of `list_kept` are weights that come with the package.

    Raises:
        InputError: There is none, or it is a pipe or a device.
    """
    if is_hub_address(source):
        return fetch_weights(source)
    path = find_kept(source) or Path(source)
    if path.is_dir():
        names = [name for name in (BEST, LAST, PACKAGED) if (path / name).exists()]
        path = path / (names[0] if names else BEST)
    if not path.exists():
        raise InputError(
            source,
            found="no weights",
            expected=f"a run folder with {BEST}, a .safetensors file, the published .pt file, or one of "
            f"{', '.join(list_kept())}",
            remedy="check the path, or train first with hept-train fit",
        )
    refuse_endless(path)
    return path


def _digest(content: object) -> str:
    """Checksum of plain values, however they are written down."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
