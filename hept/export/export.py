"""`hept-train export`: a trained model enters, one file that runs without this package leaves."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hepdata.errors import InputError, JobError, missing_extra
from hepdata.progress import ProgressChoice, listen
from hepdata.storage.atomic import disk_errors
from hepdata.storage.draft import draft_folder
from hept.runs.folder import find_weights

if TYPE_CHECKING:
    from hepdata.progress import Progress
    from hept.export.certificate import Certificate
    from hept.export.graph import InputKind
    from hept.model.trained import ModelLike, TrainedModel
    from hept.tracks.finder import Clustering

PathLike = str | os.PathLike[str]
SUFFIXES = (".onnx", ".pt2")
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
# First version whose ONNX exporter has a scatter, and with AOTInductor for a traced program.
NEEDED_TORCH = (2, 6)


@dataclass(frozen=True)
class Exported:
    """An exported model.

    Attributes:
        out: The file.
        inputs: Names of its inputs, in order.
        output: Name of its output: "embedding" or "score".
        certificate: How far it is from torch.
    """

    out: Path
    inputs: tuple[str, ...]
    output: str
    certificate: Certificate


def export_model(
    model: ModelLike,
    out: PathLike,
    *,
    inputs: Literal["raw", "prepared"] = "raw",
    aot: bool = False,
    quick: bool = False,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Exported:
    """Write a trained model as one file for any number of points and clouds, and compare it with torch.

    The file appears only where the comparison succeeds: see `hept.export.certificate`.

    Args:
        model: A run, a weights file, the published checkpoint, or a loaded model.
        out: `.onnx` for onnxruntime and the like, `.pt2` for torch without this package.
        inputs: "raw" columns by name in stored units, or "prepared" `features` and `coords` as loaders
            give them.
        aot: Compile a `.pt2` file by AOTInductor, for this kind of CPU.
        quick: Leave the cloud of 60,000 points out of the comparison.
        threads: On a CPU; as many as cores are idle where not given.
        progress: See `hepdata.progress.listen`.

    Raises:
        InputError: No weights, another suffix, a missing package, or a kind of model that has no export.
        JobError: The file differs from torch, or cannot be written.
    """
    path = Path(out)
    _check(model, path, inputs, aot=aot)
    # Imported after all checks: torch takes seconds.
    from hept.devices.threads import choose_threads, use_threads
    from hept.model.weights import load_model

    trained = load_model(model)
    n_threads = choose_threads(threads)
    with use_threads(n_threads), listen(progress) as listener:
        return write_export(
            trained, path, inputs=inputs, aot=aot, quick=quick, threads=n_threads, progress=listener
        )


def write_export(
    trained: TrainedModel,
    path: Path,
    *,
    inputs: InputKind,
    aot: bool,
    quick: bool,
    threads: int,
    progress: Progress,
) -> Exported:
    """Trace, translate, certify; then move the file to its place."""
    from hept.export import onnx_file, torch_file
    from hept.export.certificate import certify
    from hept.export.description import describe_model
    from hept.export.trace import trace

    progress.announce(f"tracing {trained.source}")
    graph, program = trace(trained, inputs)
    metadata = describe_model(trained, graph, find_clustering(trained))
    with draft_folder(path) as folder:
        draft = folder / path.name
        try:
            progress.announce(f"translating to {path.suffix[1:]}")
            if path.suffix == ".onnx":
                onnx_file.write_onnx(draft, graph, program, metadata)
            elif aot:
                torch_file.write_compiled(draft, program)
            else:
                torch_file.write_program(draft, program)
            certificate = certify(draft, trained, inputs, quick=quick, threads=threads, progress=progress)
            stored = metadata | {"certificate": certificate.to_json()}
            (onnx_file if path.suffix == ".onnx" else torch_file).add_metadata(draft, stored)
            with disk_errors(path):
                draft.replace(path)
        except JobError as error:
            # Messages name the file that the user asked for, not the draft.
            raise error.reworded(lambda text: text.replace(str(draft), str(path))) from error
    return Exported(path, (*graph.input_names, "offsets"), graph.output_name, certificate)


def find_clustering(trained: TrainedModel) -> Clustering | None:
    """Clustering of the model's run, if it was tuned."""
    from hept.evaluation.tuning import load_clustering

    path = Path(trained.source)
    return load_clustering(path) if trained.is_embedding and path.parent.is_dir() else None


def _check(model: ModelLike, out: Path, inputs: str, *, aot: bool) -> None:
    """Check the arguments without importing torch."""
    if isinstance(model, str | os.PathLike):
        find_weights(os.fspath(model))
    if inputs not in ("raw", "prepared"):
        raise InputError("`inputs`", found=repr(inputs), expected="'raw' or 'prepared'", remedy="choose one")
    if out.suffix not in SUFFIXES:
        raise InputError(
            out,
            found=f"the suffix {out.suffix!r}",
            expected=".onnx, or .pt2 for torch.export",
            remedy="name `out` accordingly (datasets are written by hept-data export)",
        )
    if aot and out.suffix != ".pt2":
        raise InputError(
            "`aot`",
            found=f"it beside {out}",
            expected="a .pt2 file, which AOTInductor writes",
            remedy="leave it out, or name `out` model.pt2",
        )
    if aot and not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        raise InputError(
            "`aot`",
            found="no C++ compiler",
            expected="g++ or clang++, with which AOTInductor compiles the model",
            remedy="install one, or export without `aot`",
        )
    if not out.parent.is_dir():
        raise InputError(
            out, found=f"no folder {out.parent}", expected="an existing folder", remedy="make it first"
        )
    if out.suffix == ".onnx":
        check_onnx_installed()
    if aot:
        _check_torch("AOTInductor")


def check_onnx_installed() -> None:
    """Check that the packages of the extra `onnx` are installed.

    Raises:
        InputError: One is missing, or torch is too old for them.
    """
    for package in ONNX_PACKAGES:
        if find_spec(package) is None:
            raise missing_extra(package, "onnx")
    _check_torch("ONNX")


def _check_torch(wanted: str) -> None:
    found = version("torch")
    if tuple(int(part) for part in found.split(".")[:2]) < NEEDED_TORCH:
        raise InputError(
            f"torch {found}",
            found=f"a version without what {wanted} needs",
            expected="torch {}.{} or newer".format(*NEEDED_TORCH),
            remedy="update torch, or export a .pt2 file that is not compiled",
        )
