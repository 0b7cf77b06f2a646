"""From a traced program to a `.pt2` file: the program itself, or machine code by AOTInductor."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.export import ExportedProgram

# Folder for extra files in torch's archive.
EXTRA = "extra"


def write_program(path: Path, program: ExportedProgram) -> None:
    """Write the traced program, which `torch.export.load` reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, path)


def write_compiled(path: Path, program: ExportedProgram) -> None:
    """Write machine code for this kind of CPU, which `torch._inductor.aoti_load_package` loads."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch._inductor.aoti_compile_and_package(program, package_path=str(path))


def add_metadata(path: Path, metadata: Mapping[str, str]) -> None:
    """Add texts by name to the archive: a `.pt2` file is a zip file."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        root = archive.namelist()[0].split("/")[0]
        for name, text in metadata.items():
            archive.writestr(f"{root}/{EXTRA}/hept/{name}.json", text)


def read_metadata(path: Path) -> dict[str, str]:
    """The texts that `add_metadata` wrote."""
    with zipfile.ZipFile(path) as archive:
        found = [name for name in archive.namelist() if f"/{EXTRA}/hept/" in name]
        return {Path(name).stem: archive.read(name).decode() for name in found}
