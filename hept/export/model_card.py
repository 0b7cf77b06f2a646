"""The README of a packaged model, in the form that model hubs read."""

from __future__ import annotations

from hepdata import __version__
from hepdata.schema import ModelInput
from hept.export.export import Exported
from hept.export.graph import unique_columns
from hept.model.network import count_parameters
from hept.model.trained import TrainedModel
from hept.model.weights import ModelCard

_OUTPUTS = {
    "embedding": "`embedding`, in which points of one group (hits of one particle) lie close together. "
    "`inference.py` joins points nearer than a distance to groups.",
    "score": "`score`, the probability of the label (a particle of the leading collision).",
}


def write_card(trained: TrainedModel, card: ModelCard, exported: Exported) -> str:
    """Markdown with data, metrics, limits, licence and citation."""
    model = trained.config.model
    lines = [
        "---",
        "library_name: hept",
        "license: mit",
        "tags: [high-energy-physics, point-cloud, onnx]",
        "---",
        "",
        f"# {trained.task}: a {model.kind} model",
        "",
        f"{count_parameters(trained.network):,} parameters, {model.n_layers} layers, trained for "
        f"{card.epoch} epochs and packaged with hept {__version__}.",
        "",
        "## Use",
        "",
        "```python",
        "import hept",
        'model = hept.load_model("hf://USER/NAME")   # or this folder',
        "```",
        "",
        "Without the package: `python inference.py model.onnx points.csv` needs onnxruntime and numpy only.",
        "",
        "## Inputs and output",
        "",
        "| input | unit | type |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{entry.column}` | {entry.unit or '–'} | {_name_type(entry)} |"
        for entry in unique_columns(trained.features, trained.coords)
    ]
    lines += [
        "",
        f"The output is {_OUTPUTS[exported.output]}",
        "",
        *_write_data(trained, card),
        *_write_limits(exported),
    ]
    return "\n".join([*lines, *_CITATION, ""])


def _name_type(entry: ModelInput) -> str:
    return f"class, 0 … {entry.n_classes - 1}" if entry.n_classes else "number"


def _write_data(trained: TrainedModel, card: ModelCard) -> list[str]:
    rows = [f"| {name} | {value:.4g} |" for name, value in sorted(card.metrics.items())]
    table = ["| metric | value |", "|---|---|", *rows] if rows else ["The weights file records none."]
    return [
        "## Data",
        "",
        f"A dataset of the task `{trained.task}` with the fingerprint `{card.dataset}` (`hept-data info`). "
        "TODO: say which events these are, and where they can be found.",
        "",
        "## Metrics",
        "",
        f"On the validation split, after epoch {card.epoch}:",
        "",
        *table,
        "",
    ]


def _write_limits(exported: Exported) -> list[str]:
    certificate = exported.certificate
    sizes = max(sum(check.sizes) for check in certificate.checks)
    return [
        "## Limits",
        "",
        "- Made for events like those it was trained on: the same detector and units, about as many points.",
        "- NaN and infinite inputs give outputs without meaning.",
        f"- `model.onnx` was compared with torch {certificate.torch} by {certificate.runtime} "
        f"{certificate.version} on clouds of up to {sizes:,} points: 99 % of points differ by at most "
        f"{certificate.worst.p99:.2g} of the outputs' scale. Where two runtimes round a hash differently, "
        f"single points differ more (at most {max(check.largest for check in certificate.checks):.1g}).",
        "",
        "## Licence",
        "",
        "MIT, unless whoever publishes this model says otherwise.",
        "",
    ]


_CITATION = [
    "## Citation",
    "",
    "```bibtex",
    "@inproceedings{miao2024hept,",
    "  title     = {Locality-Sensitive Hashing-Based Efficient Point Transformer with Applications in "
    "High-Energy Physics},",
    "  author    = {Miao, Siqi and Lu, Zhiyuan and Liu, Mia and Duarte, Javier and Li, Pan},",
    "  booktitle = {Proceedings of the 41st International Conference on Machine Learning},",
    "  year      = {2024}",
    "}",
    "```",
]
