"""Raw collision events to η–φ point-cloud datasets, and datasets to anybody's arrays and tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import HeptError, InputError, JobError

if TYPE_CHECKING:
    from hepdata.loader.dataset import Dataset, open_dataset

# The one place of the version: pyproject.toml takes it from here.
__version__ = "0.1.0"
__all__ = [
    "Dataset",
    "HeptError",
    "InputError",
    "JobError",
    "PairList",
    "PointCloud",
    "open_dataset",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: commands answer --help without waiting for Arrow.
    if name in ("Dataset", "open_dataset"):
        from hepdata.loader import dataset

        return getattr(dataset, name)
    raise AttributeError(f"module 'hepdata' has no attribute {name!r}")
