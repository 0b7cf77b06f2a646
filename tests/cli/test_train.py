"""The commands of `hept-train`, as a user runs them."""

import importlib.util
import json
import os
import re
import shutil
import signal
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.published_pairs import list_pairs
from hepdata.errors import InputError
from hepdata.progress_bar import ProgressBar
from hepdata.schema import PILEUP, TRACKING
from hept.paper import literal_model
from hept.paper.literal_loss import literal_info_nce
from hept.runs.plan import plan_run
from hept_cli import data, train

HEPT_TESTS = Path(__file__).parents[1] / "hept" / "conftest.py"
INPUTS = [
    "r",
    "phi",
    "z",
    "eta",
    "u",
    "v",
    "charge_frac",
    "leta",
    "lphi",
    "lx",
    "ly",
    "lz",
    "geta",
    "gphi",
    "layer",
]
SMALL = [
    f"--set={change}" for change in ("model.n_layers=1", "model.hidden_dim=8", "model.n_heads=2", "epochs=2")
]


def read_threads(folder):
    return json.loads((folder / "run.json").read_text())["threads"]


def run(*arguments, group=train.group):
    """Run a command in this process: importing torch again takes longer than the commands."""
    return group.main([str(argument) for argument in arguments], standalone_mode=False)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """A small dataset of each task."""
    spec = importlib.util.spec_from_file_location("small_datasets", HEPT_TESTS)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    folder = tmp_path_factory.mktemp("data")
    return {
        "tracking": made.write_dataset(folder / "tracking", TRACKING, made.tracking_cloud),
        "pileup": made.write_dataset(folder / "pileup", PILEUP, made.pileup_cloud),
    }


@pytest.fixture(scope="module")
def tracking_run(datasets, tmp_path_factory):
    """A trained run, made by the command."""
    out = tmp_path_factory.mktemp("runs") / "a"
    run("fit", datasets["tracking"], "--preset", "tracking-demo", *SMALL, "--out", out)
    return out


def test_fit_trains_reports_and_says_what_next(datasets, tmp_path, capsys):
    out = tmp_path / "a"
    run("fit", datasets["tracking"], "--preset", "tracking-demo", *SMALL, "--out", out)
    said = capsys.readouterr()
    assert "best ap@0.9" in said.out
    assert "Next: hept-train eval" in said.out
    assert re.search(r"loss .* points/s, wait for data", said.err)
    assert {"report.html", "clustering.json", "best.safetensors"} <= {path.name for path in out.iterdir()}


def test_eval_writes_the_documented_keys(tracking_run, tmp_path):
    out, path = tracking_run, tmp_path / "metrics.json"
    run("eval", out, "--json", path)
    metrics = json.loads(path.read_text())
    assert {"ap@0.9", "ap@0.5", "ap@0", "loss", "efficiency_double_majority", "trackml_score"} <= set(metrics)
    run("eval", out / "last.safetensors", _dataset_of(out), "--json", path)
    assert {"ap@0.9", "loss"} <= set(json.loads(path.read_text()))


def test_pileup_from_fit_to_eval(datasets, tmp_path):
    arguments = ("--preset", "pileup-demo", *SMALL, "--out", tmp_path / "p", "--json", tmp_path / "fit.json")
    run("fit", datasets["pileup"], *arguments)
    assert "best auc (validation)" in json.loads((tmp_path / "fit.json").read_text())
    run("eval", tmp_path / "p", "--split", "valid", "--json", tmp_path / "m.json")
    assert {"auc", "roc_auc", "f1", "auc_puppi", "met_resolution_model"} <= set(
        json.loads((tmp_path / "m.json").read_text())
    )


def test_predict_and_tune(tracking_run, tmp_path, capsys):
    out = tracking_run
    run("tune-clustering", out, "--json", tmp_path / "trials.json")
    assert json.loads((tmp_path / "trials.json").read_text())[0]["clustering"]["eps"] > 0
    run("predict", out, _dataset_of(out), "--out", tmp_path / "hits.parquet", "--split", "test")
    assert (tmp_path / "hits.parquet").stat().st_size > 0
    run("predict", out / "best.safetensors", _dataset_of(out), "--out", tmp_path / "b.parquet")
    assert "was tuned for" not in capsys.readouterr().err
    moved = shutil.copy(out / "best.safetensors", tmp_path)
    run("predict", moved, _dataset_of(out), "--out", tmp_path / "c.parquet")
    assert "no reconstruction was tuned for this model" in capsys.readouterr().err


def test_resume_continues_the_run(datasets, tmp_path, capsys):
    out = tmp_path / "r"
    run("fit", datasets["pileup"], "--preset", "pileup-demo", *SMALL, "--out", out, "--no-report")
    run("fit", "--resume", out, "--no-report")
    assert capsys.readouterr().out.count("finished") == 2


def test_fit_alone_chooses_preset_and_folder_and_says_so(datasets, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        run("fit", datasets["tracking"], *SMALL, "--device", "cpu", "--no-report")
        said = capsys.readouterr()
        assert "preset: tracking-demo, for tracking with 170 points per cloud on a CPU" in said.err
        assert f"run folder: runs/tracking-{number}" in said.err
        assert re.search(r"^expected time: about .* and validation \(8 steps of .* s\)$", said.err, re.M)
        assert (tmp_path / f"runs/tracking-{number}/best.safetensors").exists()
    assert "note:" not in said.err


def test_a_published_preset_on_a_cpu_names_the_one_for_laptops(datasets, tmp_path, capsys):
    arguments = ("--preset", "tracking-6k", *SMALL, "--device", "cpu", "--no-report")
    run("fit", datasets["tracking"], *arguments, "--out", tmp_path / "a")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note:")]
    assert line.startswith("note: tracking-6k is made for GPUs (")
    assert "for a CPU use the preset tracking-laptop (" in line


def test_other_processes_of_a_run_do_not_repeat_it(datasets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCAL_RANK", "1")
    said = []
    plan = plan_run(str(datasets["pileup"]), None, [], None, "cpu", said.append)
    assert (plan.config.task, plan.run) == ("pileup", Path("runs/pileup-1"))
    assert said == []


def test_presets_are_listed_for_people_and_scripts(tmp_path, capsys):
    run("presets", "--json", tmp_path / "p.json")
    cards = {card["name"]: card for card in json.loads((tmp_path / "p.json").read_text())}
    assert cards["tracking-60k"]["points"] == 60_000
    shown = capsys.readouterr().out
    run("fit", "--help")
    helped = " ".join(capsys.readouterr().out.split())
    for name, card in cards.items():
        assert f"{name}: {card['purpose']}; {card['time']}" in shown
        assert f"{name} {card['purpose']}, {card['points']:,} points per cloud: {card['time']}" in helped


class Impatient(ProgressBar):
    """Presses Ctrl-C after the first step."""

    def advance(self, steps=1, note=""):
        super().advance(steps, note)
        os.kill(os.getpid(), signal.SIGINT)


def test_a_run_stopped_before_its_first_validation_has_no_best_value(datasets, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hepdata.progress_bar.ProgressBar", Impatient)
    arguments = (
        "--preset",
        "tracking-demo",
        *SMALL,
        "--out",
        tmp_path / "a",
        "--json",
        tmp_path / "fit.json",
    )
    assert run("fit", datasets["tracking"], *arguments) == 130
    said = capsys.readouterr().out
    assert "Go on with: hept-train fit --resume" in said
    assert "interrupted" in said
    assert "inf" not in said
    result = json.loads((tmp_path / "fit.json").read_text())
    assert result["steps"] == 1
    assert not any("best" in key for key in result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--preset", "tracking-demo"], "give DATASET, or --resume RUN"),
        (["fit", "{tracking}", "--preset", "tracking-dmo", "--out", "x"], "did you mean 'tracking-demo'"),
        (
            ["fit", "{tracking}", "--preset", "pileup-demo", "--out", "x"],
            "found a tracking dataset; expected a pileup",
        ),
        (["fit", "nowhere", "--preset", "pileup-demo", "--out", "x"], "found no dataset.json"),
        (["fit", "--resume", "nowhere"], "found no readable config.yaml; expected a run folder"),
        (["fit", "--resume", "x", "--out", "y"], "found --preset, .* together with it"),
        (["eval", "nowhere", "{tracking}"], "found no such file or folder"),
        (["eval", "{tracking}"], "expected a dataset .only a run folder knows its own"),
    ],
)
def test_wrong_usage_is_one_line(datasets, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InputError, click.UsageError), match=message) as caught:
        run(*(argument.format(**datasets) for argument in arguments))
    assert "\n" not in str(caught.value)


def literal_metrics(dataset, state):
    """The published procedure on the single event of a dataset: forward pass, pairs, loss, all distances."""
    (row,) = pd.read_parquet(next(dataset.glob("test-*.parquet"))).to_dict("records")
    scales = {"r": 1e-3, "phi": 1 / np.pi, "z": 1e-3, "u": 1e3, "v": 1e3, "layer": 0.1}
    x = np.column_stack([np.asarray(row[name], np.float64) * scales.get(name, 1.0) for name in INPUTS])
    coords = np.column_stack([row["eta"], row["phi"], x[:, :4]])
    assert len(x) % 100 == 0
    state = {name: tensor.double() for name, tensor in state.items()}
    embedded = literal_model.forward(state, torch.from_numpy(x), torch.from_numpy(coords))
    particle, pt = torch.tensor(row["particle_id"]), torch.tensor(row["pt"])
    is_good = torch.tensor(row["is_reconstructable"])
    pairs = torch.from_numpy(list_pairs(row["eta"], row["phi"], row["particle_id"]))
    metrics = {"loss": float(literal_info_nce(embedded, pairs, particle, is_good & (pt > 0.9)))}
    distance = torch.cdist(embedded, embedded).fill_diagonal_(torch.inf)
    for cut in (0.9, 0.5, 0):
        precisions = []
        for query in (is_good & (pt > cut)).nonzero().squeeze(1):
            k = int((particle == particle[query]).sum()) - 1
            nearest = distance[query].topk(k, largest=False).indices
            precisions.append(float((particle[nearest] == particle[query]).double().mean()))
        metrics[f"ap@{cut}"] = np.mean(precisions)
    return metrics


def test_a_model_in_the_published_layout_on_a_simulated_event(trackml_copy, edit_csv, tmp_path):
    for part in ("hits", "truth", "cells"):
        # A multiple of the block size: the published code pads the last block with copies of points.
        path = trackml_copy / f"event000001000-{part}.csv"
        edit_csv(path, lambda table: table[table.hit_id <= 200])
    run(
        *("build", "tracking", trackml_copy, tmp_path / "data", "--max-events", 1),
        *("--pairs", "published", "--split", "test=1000-1000"),
        group=data.group,
    )
    state = literal_model.draw_state()
    torch.save(state, tmp_path / "model.pt")
    run("eval", tmp_path / "model.pt", tmp_path / "data", "--json", tmp_path / "m.json")
    metrics, expected = (
        json.loads((tmp_path / "m.json").read_text()),
        literal_metrics(tmp_path / "data", state),
    )
    assert expected["ap@0.9"] > 0.05
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(value, abs=2e-3), name


def test_the_published_model_on_the_real_event(real_file, tmp_path):
    run(
        *("build", "tracking", real_file("data/trackml"), tmp_path / "real"),
        *("--pairs", "published", "--split", "test=0-9"),
        group=data.group,
    )
    checkpoint = real_file("data/checkpoint/tracking-60k-model.pt")
    run("eval", checkpoint, tmp_path / "real", "--json", tmp_path / "m.json")
    metrics = json.loads((tmp_path / "m.json").read_text())
    assert metrics["ap@0.9"] == pytest.approx(0.976, abs=0.005)
    assert metrics["ap@0.5"] == pytest.approx(0.934, abs=0.005)
    assert metrics["ap@0"] == pytest.approx(0.794, abs=0.005)
    assert metrics["loss"] == pytest.approx(0.081, abs=0.002)


def _dataset_of(run_folder):
    return json.loads((run_folder / "run.json").read_text())["dataset"]


def test_threads_are_those_of_the_command_line(datasets, tmp_path, monkeypatch):
    run("fit", datasets["pileup"], "--preset", "pileup-demo", *SMALL, "--out", tmp_path / "a", "--no-report")
    assert read_threads(tmp_path / "a") == 1  # HEPT_THREADS of all tests
    options = ("--out", tmp_path / "b", "--no-report", "--threads", "2")
    run("fit", datasets["pileup"], "--preset", "pileup-demo", *SMALL, *options)
    assert read_threads(tmp_path / "b") == 2

    def evaluate(model, dataset, split, *, clustering, progress):
        return {"threads": torch.get_num_threads()}

    monkeypatch.setattr("hept.evaluation.evaluator.evaluate", evaluate)
    before = torch.get_num_threads()
    run("eval", tmp_path / "b", "--threads", before + 1, "--json", tmp_path / "eval.json")
    assert json.loads((tmp_path / "eval.json").read_text()) == {"threads": before + 1}
    assert torch.get_num_threads() == before
