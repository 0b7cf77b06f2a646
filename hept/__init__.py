"""The LSH-based efficient point transformer: model, training, evaluation.

Training and its results:
    fit                         train on a dataset; gives a run
    open_run, Run               a run that was trained before
    evaluate, write_report      figures of merit, and a page with pictures
    tune_clustering, predict    tracks from embeddings; an answer for every point, as Parquet
    export_model                one file (ONNX, torch.export) that runs without this package
    package_model               a folder for a model hub
    compare                     every system of the paper on one dataset

Models:
    load_model, TrainedModel    trained weights: `load_model("runs/a")(cloud)`
    load_published              the published checkpoint
    describe                    parameters and operations of a model
    HEPT, HEPTAttention, Clouds the network itself: `model(features, coords, offsets)`

Settings:
    list_settings               every setting with type, default and meaning
    describe_presets            ready-made settings

Submodules:
    settings      every setting                 config        presets and files of settings
    run, run_folder                             a run, and its files
    model         the network                   attention     HEPT attention and its kernels
    systems       other systems of the paper    losses        InfoNCE, focal
    objective     what a task asks of a model   metrics       AP@k, classification, tracks, cleaning
    training      the loop                      evaluation    metrics, tracks and predictions of a split
    checkpoint    weights on disk               report        report.html
    export        files for other programs
    comparison    the paper's tables            theory        its numerical experiment
    commands, model_cost, settings_table        the functions above
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hepdata import __version__ as __version__
from hepdata.openmp import limit_spinning

if TYPE_CHECKING:
    from hept.attention.clouds import Clouds
    from hept.attention.definition import HEPTAttention
    from hept.commands import evaluate, fit, predict, tune_clustering, write_report
    from hept.export.export import export_model
    from hept.export.package import package_model
    from hept.model.cost import describe
    from hept.model.published_weights import load_published
    from hept.model.trained import TrainedModel
    from hept.model.transformer import HEPT
    from hept.model.weights import load_model
    from hept.paper.comparison.compare import compare
    from hept.runs.run import Run, open_run
    from hept.settings.preset_choice import describe_presets
    from hept.settings.table import list_settings

# Nothing here has loaded torch yet.
limit_spinning()

__all__ = [
    "HEPT",
    "Clouds",
    "HEPTAttention",
    "Run",
    "TrainedModel",
    "compare",
    "describe",
    "describe_presets",
    "evaluate",
    "export_model",
    "fit",
    "list_settings",
    "load_model",
    "load_published",
    "open_run",
    "package_model",
    "predict",
    "tune_clustering",
    "write_report",
]

_MODULES = {
    "HEPT": "hept.model.transformer",
    "Clouds": "hept.attention.clouds",
    "HEPTAttention": "hept.attention.definition",
    "Run": "hept.runs.run",
    "TrainedModel": "hept.model.trained",
    "compare": "hept.paper.comparison.compare",
    "describe": "hept.model.cost",
    "describe_presets": "hept.settings.preset_choice",
    "evaluate": "hept.commands",
    "export_model": "hept.export.export",
    "fit": "hept.commands",
    "list_settings": "hept.settings.table",
    "load_model": "hept.model.weights",
    "load_published": "hept.model.published_weights",
    "open_run": "hept.runs.run",
    "package_model": "hept.export.package",
    "predict": "hept.commands",
    "tune_clustering": "hept.commands",
    "write_report": "hept.commands",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: settings are checked without waiting for torch.
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'hept' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
