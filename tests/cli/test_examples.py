"""Every `--help` has an example, and the examples work as printed, one after the other in one folder."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from hept_cli import data, train

BIN = Path(sys.executable).parent
# Examples that take long, with what makes them short enough for a test.
SHORTER = {
    "hept-train fit": "--set epochs=1",
    "hept-train tune": "--set epochs=1 --trials 2",
    "hept-train export": "--quick",
    "hept-train package": "--quick",
    "hept-train compare": "--budget 1epochs --models hept,gcn --tables accuracy",
}
# For the model that is exported: tracing takes time for every head, table and layer.
SMALL = "--set model.n_layers=1 --set model.n_heads=2 --set model.n_tables=2"
# These take minutes: tests of their own run them.
LEFT_OUT = {"demo", "theory", "compare", "doctor"}


def walk(program: str, command: click.Command) -> list[tuple[str, click.Command]]:
    """All commands below a group, with the words that call them."""
    if not isinstance(command, click.Group):
        return [(program, command)]
    context = click.Context(command)
    found = [(program, command)]
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        found += walk(f"{program} {name}", below)
    return found


def examples_of(command: click.Command) -> list[str]:
    """The examples as a user sees them: lines of the rendered help."""
    text = command.get_help(click.Context(command, terminal_width=200))
    return [line.strip() for line in text.splitlines() if re.match(r"\s+hept-(data|train) ", line)]


COMMANDS = walk("hept-data", data.group) + walk("hept-train", train.group)


@pytest.mark.parametrize(("program", "command"), COMMANDS, ids=[program for program, _ in COMMANDS])
def test_help_has_an_example_of_the_command_itself(program, command):
    assert any(line.startswith(program) for line in examples_of(command))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


def run(line: str, folder: Path) -> None:
    program, *arguments = shlex.split(line)
    done = subprocess.run(
        [BIN / program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, f"$ {line}\n{done.stderr[-2000:]}"


def write_table(folder: Path) -> None:
    """The user's own table, and what its columns are."""
    example = Path(__file__).parents[2] / "examples" / "calorimeter"
    shutil.copy(example / "showers.yaml", folder / "cells.yaml")
    script = [sys.executable, example / "simulate.py", folder / "cells.parquet", "--events", "5"]
    subprocess.run(script, check=True)


def write_published_files(folder: Path) -> None:
    """The user's own point clouds in torch_geometric files, which `import` starts from."""
    import torch

    import hepdata

    split = hepdata.open_dataset(folder / "tracking")["train"]
    (folder / "published").mkdir()
    for i in range(3):
        cloud = split[i]
        x = [cloud.columns[f.column] * f.scale for f in split.schema.features if f.column != "layer"]
        tensors = {"x": torch.tensor(np.stack(x, 1)), "pos": torch.tensor(cloud.coords[:, :2])}
        tensors |= {name: torch.tensor(cloud.columns[name]) for name in ("layer", "particle_id", "pt")}
        tensors["reconstructable"] = torch.tensor(cloud.is_reconstructable)
        tensors["point_pairs"] = torch.tensor(cloud.positives.as_edges())
        torch.save(tensors, folder / "published" / f"data{1000 + i}_s0.pt")


@pytest.mark.pages
def test_examples_work_as_printed(folder):
    done = set()
    for program, command in COMMANDS:
        name = program.split()[-1]
        if name in LEFT_OUT:
            continue
        if name == "table":
            write_table(folder)
        if name == "import":
            write_published_files(folder)
        if name == "predict":
            run("hept-train fit pileup --out runs/pileup --set epochs=1", folder)
        for line in examples_of(command):
            # The extra [acts] is not among those of the tests' environment.
            if line not in done and line.split()[1] not in LEFT_OUT and "--engine acts" not in line:
                shorter = "" if "--resume" in line else SHORTER.get(program, "")
                run(f"{line} {shorter} {SMALL if line.endswith('--out runs/a') else ''}", folder)
                done.add(line)
    assert (folder / "runs" / "a").is_dir()
