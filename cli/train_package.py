"""`hept-train package`: a folder for a model hub."""

from __future__ import annotations

from pathlib import Path

import click

import hept

from .command_line import json_option, threads_option, write_json
from .printing import format_bytes, print_table
from .train_export import print_certificate, summary


@click.command("package")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FOLDER")
@click.option("--quick", is_flag=True, help="Leave 60,000 points out of the comparison with torch.")
@threads_option
@json_option
def command(model: Path, out: Path, quick: bool, threads: int | None, json_path: Path | None) -> None:
    """Write MODEL (a run folder or a weights file) into a new folder that is ready for a model hub.

    It holds the weights (safetensors), ONNX, a model card, config.json and an inference example. Every
    command that takes a run takes this folder too, and after an upload hf://user/name.

    \b
    Example:
      hept-train package runs/a --out my-model
    """
    done = hept.package_model(model, out, quick=quick, threads=threads, progress=True)
    print_certificate(done.exported.certificate)
    rows = [(name, format_bytes((done.out / name).stat().st_size)) for name in done.files]
    print_table(str(done.out), ("file", "size"), rows)
    write_json(json_path, {"out": done.out, "files": done.files, **summary(done.exported.certificate)})
