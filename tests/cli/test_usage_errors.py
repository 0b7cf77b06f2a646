"""Mistakes on the command line: one helpful line each, before torch is imported."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hepdata.schema import PILEUP, TRACKING
from hept.runs.folder import BEST, RunFolder
from hept.settings.load import load_config

HEPT_TESTS = Path(__file__).parents[1] / "hept" / "conftest.py"
SCRIPT = """
import sys
from hept_cli.{program} import main
try:
    main()
finally:
    print("torch" in sys.modules)
"""


def call(folder, line):
    """Run a command line; gives exit code, standard error, and whether torch was imported."""
    program, *arguments = shlex.split(line)
    script = SCRIPT.format(program={"hept-train": "train", "hept-data": "data"}[program])
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr, done.stdout.splitlines()[-1] == "True"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Datasets of both tasks, one of a single event, and something that looks like a run of the first."""
    spec = importlib.util.spec_from_file_location("small_datasets", HEPT_TESTS)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    folder = tmp_path_factory.mktemp("mistakes")
    made.write_dataset(folder / "tracking", TRACKING, made.tracking_cloud)
    made.write_dataset(folder / "pileup", PILEUP, made.pileup_cloud)
    made.write_dataset(folder / "one", TRACKING, made.tracking_cloud, {"train": 1})
    RunFolder(folder / "run").create(load_config("tracking-demo"), {"dataset": str(folder / "tracking")})
    (folder / "run" / BEST).touch()
    return folder


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hept-train fti", "No such command 'fti'; did you mean 'fit'?"),
        ("hept-train fit", "give DATASET, or --resume RUN"),
        ("hept-train fit tracking --prest a", "No such option '--prest'; did you mean '--preset'?"),
        (
            "hept-train fit tracking --device tpu",
            "--device tpu: found no name of a device; expected one of auto",
        ),
        ("hept-train fit tracking --device cuda:x", "--device cuda:x: found no name of a device"),
        ("hept-train fit tracking --precision half", "is not one of '32-true', '64-true', 'bf16-mixed'"),
        ("hept-train fit nowhere", "nowhere: found no dataset.json"),
        ("hept-train fit tracking --preset trackng-6k", "did you mean 'tracking-6k'?"),
        ("hept-train fit tracking --preset pileup-demo", "expected a pileup dataset for this preset"),
        ("hept-train fit tracking --model hpt", "did you mean 'hept'?"),
        ("hept-train fit tracking --set lr=1", "unknown setting 'lr'; .* did you mean 'optimizer.lr'?"),
        ("hept-train fit tracking --set n_tabels=1", "did you mean 'model.n_tables'?"),
        ("hept-train fit tracking --set optimiser.lr=1", "did you mean 'optimizer.lr'?"),
        ("hept-train fit tracking --set data.features=[ete]", "'ete'.* did you mean 'eta'?"),
        (
            "hept-train fit tracking --set data.coords=[phy]",
            "'phy'.* did you mean 'phi'?",
        ),
        ("hept-train fit pileup --set 'data.features=[{column: enrgy}]'", "did you mean 'energy'?"),
        ("hept-train fit one", "split 'valid': found no clouds; .* --split of hept-data build"),
        (
            "hept-train fit tracking --out run",
            "run: found best.safetensors without a saved state",
        ),
        ("hept-train fit --resume nowhere", "found no readable config.yaml"),
        ("hept-train fit --resume run", "found no resume.pt"),
        ("hept-train eval nowhere", "nowhere: found no such file or folder"),
        ("hept-train eval nowhere tracking", "nowhere: found no such file or folder"),
        (
            "hept-train eval tracking",
            "expected a dataset .only a run folder knows its own.; name it as DATASET",
        ),
        ("hept-train eval run nowhere", "nowhere: found no dataset.json"),
        ("hept-train eval run --split tset", "did you mean 'test'?"),
        ("hept-train eval run one", "split 'test': found no clouds"),
        ("hept-train predict run tracking --out x --split tset", "did you mean 'test'?"),
        ("hept-train predict nowhere tracking --out x", "nowhere: found no such file or folder"),
        ("hept-train tune-clustering nowhere", "nowhere: found no such file or folder"),
        ("hept-train describe trackng-6k", "did you mean 'tracking-6k'?"),
        ("hept-train describe tracking-6k --set lr=1", "did you mean 'optimizer.lr'?"),
        ("hept-train describe run --set epochs=1", "weights keep their settings"),
        ("hept-train compare nowhere", "nowhere: found no dataset.json"),
        ("hept-train compare tracking --models hpt", "did you mean 'hept'?"),
        ("hept-train compare tracking --tables tme", "did you mean 'time'?"),
        ("hept-train compare tracking --set lr=1", "did you mean 'optimizer.lr'?"),
        ("hept-train compare one", "found no clouds"),
        ("hept-train theory --points 5 --neighbors 7", "expected fewer neighbours than points"),
        ("hept-train demo tracking", "found a folder with other files"),
        ("hept-data bild", "did you mean 'build'?"),
        ("hept-data build trackin a b", "did you mean 'tracking'?"),
        ("hept-data build tracking nowhere x", "found nothing at this path"),
        ("hept-data build tracking tracking x --slit 1", "did you mean '--split'?"),
        ("hept-data build pileup nowhere.root x", "nowhere.root: found no file"),
        ("hept-data inspect nowhere.root", "nowhere.root: found no file"),
        ("hept-data import nowhere x", "does not exist"),
        ("hept-data info nowhere", "nowhere: found no dataset.json"),
        ("hept-data validate nowhere", "nowhere: found no dataset.json"),
        ("hept-data convert nowhere x", "nowhere: found no dataset.json"),
        ("hept-data merge nowhere x", "nowhere: found no dataset.json"),
        ("hept-data export tracking x.h5 --split tset", "did you mean 'test'?"),
        ("hept-data plot tracking --out x --split tset", "did you mean 'test'?"),
        ("hept-data simulate tracking x --events 0", "--events: found 0"),
        ("hept-data simulate pileup x.root --events 0", "--events: found 0"),
    ],
)
def test_a_mistake_gets_one_line_before_torch_is_imported(folder, line, message):
    code, said, has_torch = call(folder, line)
    assert code == 2
    assert re.search(message.replace("?", r"\?"), said)
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert not has_torch


@pytest.mark.parametrize(
    "module", ["hept", "hept.settings.load", "hept.runs.folder", "hept.model.dataset_checks"]
)
def test_settings_need_no_torch(module):
    script = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def run_module(module, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("module", "program"), [("hept", "hept-train"), ("hepdata", "hept-data")])
def test_modules_are_the_commands_and_know_the_version(module, program):
    import hepdata
    import hept

    assert hept.__version__ == hepdata.__version__
    done = run_module(module, "--version")
    assert (done.returncode, done.stdout) == (0, f"{program} {hepdata.__version__}\n")
    assert run_module(module, "--help").stdout.startswith(f"Usage: {program} ")


def test_the_version_is_that_of_the_package_and_of_its_citation():
    from importlib.metadata import version

    import hepdata

    assert version("hept") == hepdata.__version__
    citation = (Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {hepdata.__version__}\n" in citation


@pytest.mark.parametrize(
    ("module", "words", "offered"),
    [
        ("hept", "hept-train ev", {"eval"}),
        ("hept", "hept-train fit --res", {"--resume"}),
        ("hept", "hept-train fit tracking --preset tracking-l", {"tracking-laptop"}),
        ("hept", "hept-train fit tracking --model grav", {"gravnet"}),
        ("hepdata", "hept-data build p", {"pileup"}),
        ("hepdata", "hept-data build tracking raw out --pairs p", {"paper", "published"}),
    ],
)
def test_the_shell_completes(module, words, offered):
    variable = {"hept": "_HEPT_TRAIN_COMPLETE", "hepdata": "_HEPT_DATA_COMPLETE"}[module]
    position = str(len(words.split()) - 1)
    done = run_module(module, **{variable: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": position})
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_gets_its_script(shell):
    done = run_module("hept", _HEPT_TRAIN_COMPLETE=f"{shell}_source")
    assert done.returncode == 0
    assert f"_HEPT_TRAIN_COMPLETE={shell}_complete" in done.stdout
