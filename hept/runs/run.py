"""A training run as an object: its folder, settings and history, and the dataset it was trained on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hepdata.errors import InputError
from hepdata.html_table import html_table
from hepdata.loader.dataset import Dataset, open_dataset
from hept.runs.folder import RunFolder
from hept.settings.train_config import TrainConfig

if TYPE_CHECKING:
    import pandas as pd

    from hept.training.trainer import FitResult


@dataclass(frozen=True, repr=False)
class Run:
    """A run, returned by `hept.fit` and `hept.open_run`.

    Attributes:
        path: The run folder.
        result: How the training ended; None for a run that was opened.
    """

    path: Path
    result: FitResult | None = field(default=None, compare=False)

    @property
    def config(self) -> TrainConfig:
        """All settings of the run."""
        return RunFolder(self.path).read_config()

    def history(self) -> pd.DataFrame:
        """Losses and validation metrics, one row per epoch."""
        import pandas as pd

        rows = RunFolder(self.path).read_rows("metrics")
        return pd.DataFrame(
            {name: pd.to_numeric(column, errors="coerce") for name, column in pd.DataFrame(rows).items()}
        )

    def open_dataset(self) -> Dataset:
        """Open the dataset that the run was trained on, at its recorded path absolute or relative to the run.

        Raises:
            InputError: Not a run folder, or the dataset no longer exists.
        """
        description = RunFolder(self.path).read_description()
        changed = ""
        for location in _list_locations(self.path, description):
            try:
                dataset = open_dataset(location)
            except InputError:
                continue
            if description.get("fingerprint", dataset.fingerprint) == dataset.fingerprint:
                return dataset
            changed = location
        recorded = description.get("dataset")
        raise InputError(
            self.path,
            found=f"another dataset at {changed}" if changed else f"no dataset at {recorded}",
            expected="the dataset that the run was trained on",
            remedy="give the dataset as `dataset`",
        )

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        rows = RunFolder(self.path).read_rows("metrics")
        parts = [f"{rows[-1]['epoch']} epochs"] if rows else ["no epoch yet"]
        if self.result is not None and self.result.best is not None:
            parts.append(
                f"best {self.result.metric} {self.result.best:.4g} in epoch {self.result.best_epoch}"
            )
        return f"Run({str(self.path)!r}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = RunFolder(self.path).read_rows("metrics")
        header = list(rows[0]) if rows else []
        cells = [[_shorten(row[name]) for name in header] for row in rows[-10:]]
        return html_table(repr(self), header, cells)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open the folder of an earlier run.

    Raises:
        InputError: It does not exist or is not a run.
    """
    folder = Path(path)
    if not folder.exists():
        raise no_such_run(folder)
    RunFolder(folder).read_description()
    return Run(folder)


def no_such_run(path: Path) -> InputError:
    """The error for a run or weights file that does not exist."""
    return InputError(
        path,
        found="no such file or folder",
        expected="a run folder or a weights file",
        remedy="check the path, or train first with hept-train fit",
    )


def describe_location(dataset: Dataset, run: Path) -> dict[str, str]:
    """Absolute and relative location of a run's dataset: it is found from any folder, also if both move."""
    location = dataset.root.location
    if not dataset.root.is_local:
        return {"dataset": location}
    absolute = Path(location).resolve()
    return {"dataset": str(absolute), "dataset_from_run": os.path.relpath(absolute, run.resolve())}


def _list_locations(run: Path, description: dict[str, object]) -> Iterator[str]:
    if "dataset" in description:
        yield str(description["dataset"])
    if "dataset_from_run" in description:
        yield os.path.normpath(run.resolve() / str(description["dataset_from_run"]))


def _shorten(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text
