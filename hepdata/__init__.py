"""Raw collision events to η–φ point-cloud datasets, and datasets to arrays and tensors.

Raw events:
    simulate_tracking, simulate_pileup   write simulated raw events
    inspect                              what a Delphes file has

Datasets:
    build_tracking, build_pileup         from raw events
    build_table                          from any table of points
    import_pyg                           from published torch_geometric files
    open_dataset                         an existing one: `open_dataset("tracks")["train"][0]` is a cloud
    validate, convert, merge             check every byte, change the format, join
    export_padded, plot                  a padded HDF5 file, pictures
    view                                 events on an interactive page
    publish                              a folder for Hugging Face, Zenodo or a web server, and its upload

What they give:
    Dataset, Split, PointCloud, PairList, Batch
    HeptError (InputError, JobError)     the errors that a user can cause

Submodules, in the order in which data flows:
    readers     raw files to events             simulate    simulated raw events
    features    events to point clouds          pairs       contrastive pair lists
    schema      columns, inputs, targets        inputs      a model's inputs from names and settings
    storage     datasets on disk                pipeline    whole builds, in parallel
    loader      datasets to arrays and tensors  pictures    events and distributions drawn
    publishing  datasets for other people       viewer      events on an interactive page
    building, commands                          the functions above
    progress    listeners of long work          errors      one line: where, found, expected, remedy
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import HeptError, InputError, JobError

if TYPE_CHECKING:
    from hepdata.building import build_pileup, build_table, build_tracking, import_pyg
    from hepdata.commands import (
        convert,
        export_padded,
        inspect,
        merge,
        plot,
        publish,
        simulate_pileup,
        simulate_tracking,
        validate,
        view,
    )
    from hepdata.loader.batch import Batch
    from hepdata.loader.dataset import Dataset, open_dataset
    from hepdata.loader.split import Split

# pyproject.toml reads the version from here.
__version__ = "0.1.0"
__all__ = [
    "Batch",
    "Dataset",
    "HeptError",
    "InputError",
    "JobError",
    "PairList",
    "PointCloud",
    "Split",
    "build_pileup",
    "build_table",
    "build_tracking",
    "convert",
    "export_padded",
    "import_pyg",
    "inspect",
    "merge",
    "open_dataset",
    "plot",
    "publish",
    "simulate_pileup",
    "simulate_tracking",
    "validate",
    "view",
]

_MODULES = {
    "Batch": "hepdata.loader.batch",
    "Dataset": "hepdata.loader.dataset",
    "Split": "hepdata.loader.split",
    "build_pileup": "hepdata.building",
    "build_table": "hepdata.building",
    "build_tracking": "hepdata.building",
    "convert": "hepdata.commands",
    "export_padded": "hepdata.commands",
    "import_pyg": "hepdata.building",
    "inspect": "hepdata.commands",
    "merge": "hepdata.commands",
    "open_dataset": "hepdata.loader.dataset",
    "plot": "hepdata.commands",
    "publish": "hepdata.commands",
    "simulate_pileup": "hepdata.commands",
    "simulate_tracking": "hepdata.commands",
    "validate": "hepdata.commands",
    "view": "hepdata.commands",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: commands answer --help without waiting for Arrow.
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'hepdata' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__"]
