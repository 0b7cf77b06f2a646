"""`hept-train`: fit, evaluate and apply HEPT."""

from __future__ import annotations

from typing import NoReturn

from .command_line import LazyGroup, run

# name: (module, one line of help), in the order of a typical workflow
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": (".train_demo", "The whole workflow on simulated events, in a few minutes."),
    "fit": (".train_fit", "Train a model on a dataset."),
    "presets": (".train_presets", "Ready-made settings: what they are for, and how long they take."),
    "settings": (".train_settings", "Every setting: type, default, meaning, presets that change it."),
    "describe": (".train_describe", "Parameters and operations of a model."),
    "eval": (".train_eval", "Evaluate a trained model."),
    "predict": (".train_predict", "Embedding, score and track of every point; tracks of raw events."),
    "score": (".train_score", "Tracks of any tracker against the truth of a dataset."),
    "view": (".train_view", "Events with a model's answers on an interactive page."),
    "tune-clustering": (".train_tune_clustering", "Choose how embeddings are clustered into tracks."),
    "export": (".train_export", "A model as one file (ONNX, torch.export) that runs without this package."),
    "package": (".train_package", "A folder for a model hub: weights, ONNX, model card, example."),
    "tune": (".train_tune", "Search settings on the validation split; resumable."),
    "compare-runs": (
        ".train_compare_runs",
        "Trained runs side by side: settings, metrics, curves.",
    ),
    "index-runs": (".train_index_runs", "One page that lists all runs of a folder."),
    "compare": (".train_compare", "Every system of the paper on one dataset."),
    "doctor": (".train_doctor", "Whether this machine computes right, and how fast."),
    "theory": (".train_theory", "Error against computation of kernel approximations."),
}

group = LazyGroup(
    name="hept-train",
    help="Train and evaluate HEPT on datasets made by hept-data.\n\n\b\nExample:\n  hept-train demo demo",
    commands_at=COMMANDS,
)


def main() -> NoReturn:
    """Run `hept-train`."""
    run(group)
