"""`hept-train export`: a trained model as one file that runs without this package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

import hept

from .command_line import json_option, threads_option, write_json
from .printing import format_bytes, print_lines, print_table

if TYPE_CHECKING:
    from hept.export.certificate import Certificate


@click.command("export")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option(
    "--inputs",
    type=click.Choice(["raw", "prepared"]),
    default="raw",
    show_default=True,
    help="Stored columns by name, or the matrices `features` and `coords` of a loader.",
)
@click.option("--aot", is_flag=True, help="Compile a .pt2 file for this kind of CPU (AOTInductor).")
@click.option("--quick", is_flag=True, help="Leave 60,000 points out of the comparison with torch.")
@threads_option
@json_option
def command(
    model: Path,
    out: Path,
    inputs: Literal["raw", "prepared"],
    aot: bool,
    quick: bool,
    threads: int | None,
    json_path: Path | None,
) -> None:
    """Write MODEL (a run folder or a weights file) as one file that runs without this package.

    FILE is model.onnx, for onnxruntime in any language, or model.pt2, for torch.export. It takes any number
    of points and clouds. Before it appears, it is run alone and compared with torch; the differences are
    printed, and stored in the file.

    Models only: `hept-data export` writes datasets.

    \b
    Examples:
      hept-train export runs/a --out model.onnx
      hept-train export runs/a --out model.pt2
    """
    done = hept.export_model(model, out, inputs=inputs, aot=aot, quick=quick, threads=threads, progress=True)
    print_certificate(done.certificate)
    print_lines(
        f"{done.out}, {format_bytes(done.out.stat().st_size)}: {', '.join(done.inputs)} → {done.output}"
    )
    write_json(
        json_path,
        {"out": done.out, "inputs": done.inputs, "output": done.output, **summary(done.certificate)},
    )


def print_certificate(certificate: Certificate) -> None:
    """The differences as a table."""
    rows = [
        (" + ".join(f"{n:,}" for n in check.sizes), check.draws, check.median, check.p99, check.largest)
        for check in certificate.checks
    ]
    print_table(
        f"{certificate.runtime} {certificate.version} against torch {certificate.torch}: differences as a "
        f"share of the outputs' scale; 99 % of points must stay below {certificate.tolerance:g}",
        ("points", "batches", "median", "99 %", "largest"),
        rows,
    )
    if certificate.left_out:
        print_lines(f"not compared: {', '.join(f'{n:,}' for n in certificate.left_out)} points")


def summary(certificate: Certificate) -> dict[str, object]:
    """The certificate for `--json`."""
    from dataclasses import asdict

    return {"certificate": asdict(certificate)}
