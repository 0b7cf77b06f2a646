"""The LSH-based efficient point transformer: model, training, evaluation.

Training and its results:
    fit                         train on a dataset; returns a run
    plan_memory                 the memory that training needs on a GPU
    open_run, Run               a run that was trained before
    evaluate, write_report      figures of merit, and a page with pictures
    view                        events with the model's answers on an interactive page
    tune_clustering, predict    tracks from embeddings; predictions for every point, as Parquet
    find_raw_tracks             tracks of raw TrackML, ACTS or ColliderML events, with fitted helices
    score_tracks                the tracks of any tracker against the truth
    clean                       weights and scaled momenta for a raw Delphes file
    export_model                one file (ONNX, torch.export) that runs without this package
    package_model               a folder for a model hub
    tune                        search settings on the validation split
    compare_runs, index_runs    pages that compare and list trained runs
    compare                     every system of the paper on one dataset
    doctor                      whether this machine computes right, and how fast

Models:
    load_model, TrainedModel    trained weights: `load_model("runs/a")(cloud)`
    load_published              the published checkpoint
    describe                    parameters and operations of a model
    HEPT, HEPTAttention, Clouds the network itself: `model(features, coords, offsets)`

Settings:
    list_settings               every setting with type, default and meaning
    describe_presets            ready-made settings

Submodules:
    settings      settings and presets          runs          a run, its plan, data and folder
    model         the network and its weights   attention     HEPT attention and its kernels
    objectives    loss and metrics of a task    losses        InfoNCE, focal
    training      the training loop             metrics       AP@k, classification, tracks, cleaning
    evaluation    metrics, tracks, predictions  report        report.html
    tracks        the tree, helices, track files
    devices       threads, GPUs, memory         commands      most of the functions above
    diagnosis     the checks of `doctor`        paper         systems, tables and theory of the paper
    export        files for other programs
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hepdata import __version__ as __version__
from hepdata.openmp import limit_spinning

if TYPE_CHECKING:
    from hept.attention.clouds import Clouds
    from hept.attention.definition import HEPTAttention
    from hept.commands import (
        clean,
        compare_runs,
        doctor,
        evaluate,
        find_raw_tracks,
        fit,
        index_runs,
        plan_memory,
        predict,
        score_tracks,
        tune,
        tune_clustering,
        view,
        write_report,
    )
    from hept.export.export import export_model
    from hept.export.package import package_model
    from hept.model.cost import describe
    from hept.model.published_weights import load_published
    from hept.model.trained import TrainedModel
    from hept.model.transformer import HEPT
    from hept.model.weights import load_model
    from hept.paper.comparison.compare import compare
    from hept.runs.run import Run, open_run
    from hept.settings.listing import list_settings
    from hept.settings.preset_choice import describe_presets

# It must be set before torch is imported.
limit_spinning()

__all__ = [
    "HEPT",
    "Clouds",
    "HEPTAttention",
    "Run",
    "TrainedModel",
    "clean",
    "compare",
    "compare_runs",
    "describe",
    "describe_presets",
    "doctor",
    "evaluate",
    "export_model",
    "find_raw_tracks",
    "fit",
    "index_runs",
    "list_settings",
    "load_model",
    "load_published",
    "open_run",
    "package_model",
    "plan_memory",
    "predict",
    "score_tracks",
    "tune",
    "tune_clustering",
    "view",
    "write_report",
]

_MODULES = {
    "HEPT": "hept.model.transformer",
    "Clouds": "hept.attention.clouds",
    "HEPTAttention": "hept.attention.definition",
    "Run": "hept.runs.run",
    "TrainedModel": "hept.model.trained",
    "clean": "hept.commands",
    "compare": "hept.paper.comparison.compare",
    "compare_runs": "hept.commands",
    "describe": "hept.model.cost",
    "describe_presets": "hept.settings.preset_choice",
    "doctor": "hept.commands",
    "evaluate": "hept.commands",
    "export_model": "hept.export.export",
    "find_raw_tracks": "hept.commands",
    "fit": "hept.commands",
    "index_runs": "hept.commands",
    "list_settings": "hept.settings.listing",
    "load_model": "hept.model.weights",
    "load_published": "hept.model.published_weights",
    "open_run": "hept.runs.run",
    "package_model": "hept.export.package",
    "plan_memory": "hept.commands",
    "predict": "hept.commands",
    "score_tracks": "hept.commands",
    "tune": "hept.commands",
    "tune_clustering": "hept.commands",
    "view": "hept.commands",
    "write_report": "hept.commands",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that settings are checked without importing torch.
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'hept' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__"]
