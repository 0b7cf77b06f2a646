"""`hept-train package`: a trained model enters, a folder ready for a model hub leaves."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hepdata import __version__
from hepdata.errors import InputError
from hepdata.progress import ProgressChoice, listen
from hepdata.storage.atomic import disk_errors
from hepdata.storage.draft import draft_folder
from hept.export.export import check_onnx_installed
from hept.model.hub import PACKAGED
from hept.runs.folder import find_weights

if TYPE_CHECKING:
    from hept.export.export import Exported
    from hept.model.trained import ModelLike, TrainedModel
    from hept.model.weights import ModelCard

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Package:
    """A packaged model.

    Attributes:
        out: The folder.
        files: Names of its files.
        exported: The ONNX file in it, with its certificate.
    """

    out: Path
    files: tuple[str, ...]
    exported: Exported


def package_model(
    model: ModelLike,
    out: PathLike,
    *,
    quick: bool = False,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Package:
    """Write weights, ONNX, model card, `config.json` and an inference example into a new folder.

    `load_model` loads the folder, and after an upload to a hub its address there.

    Args:
        model: A run, a weights file, or a loaded model.
        out: The folder to make.
        quick: Leave the cloud of 60,000 points out of the comparison of ONNX with torch.
        threads: On a CPU; as many as cores are idle where not given.
        progress: See `hepdata.progress.listen`.

    Raises:
        InputError: No weights of hept-train fit, a folder that exists, or a kind of model that has no export.
        JobError: ONNX differs from torch, or the folder cannot be written.
    """
    folder = Path(out)
    weights = find_weights(os.fspath(model) if isinstance(model, str | os.PathLike) else model.source)
    _check(folder, weights)
    # Imported after all checks: torch takes seconds.
    from hept.devices.threads import choose_threads, use_threads
    from hept.export.export import write_export
    from hept.model.weights import load_model, read_card

    trained, card = load_model(weights), read_card(weights)
    n_threads = choose_threads(threads)
    with draft_folder(folder) as draft:
        with use_threads(n_threads), listen(progress) as listener:
            exported = write_export(
                trained,
                draft / "model.onnx",
                inputs="raw",
                aot=False,
                quick=quick,
                threads=n_threads,
                progress=listener,
            )
        with disk_errors(folder):
            _write_files(draft, weights, trained, card, exported)
            draft.rename(folder)
    moved = type(exported)(folder / "model.onnx", exported.inputs, exported.output, exported.certificate)
    return Package(folder, tuple(sorted(path.name for path in folder.iterdir())), moved)


def _write_files(
    folder: Path, weights: Path, trained: TrainedModel, card: ModelCard, exported: Exported
) -> None:
    from hept.evaluation.tuning import save_clustering
    from hept.export.export import find_clustering
    from hept.export.model_card import write_card

    shutil.copyfile(weights, folder / PACKAGED)
    shutil.copyfile(Path(__file__).with_name("inference.py"), folder / "inference.py")
    if (tuned := find_clustering(trained)) is not None:
        save_clustering(folder, tuned)
    config = {
        "library_name": "hept",
        "hept_version": __version__,
        "model_type": trained.config.model.kind,
        "task": trained.task,
        "objective": trained.objective,
        "inputs": list(exported.inputs),
        "output": exported.output,
        "features": [asdict(entry) for entry in trained.features],
        "coords": [asdict(entry) for entry in trained.coords],
        "settings": card.config,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(write_card(trained, card, exported), encoding="utf-8")


def _check(out: Path, weights: Path) -> None:
    if out.exists():
        raise InputError(
            out,
            found="a file or folder",
            expected="a new folder",
            remedy="choose another `out`, or remove it",
        )
    if weights.suffix != ".safetensors":
        raise InputError(
            weights,
            found="weights without a description",
            expected="a .safetensors file, or a run with one",
            remedy="package a run of hept-train fit",
        )
    check_onnx_installed()
