import json
import re

import pytest
from click.testing import CliRunner

from hepdata.errors import InputError, JobError
from hepdata.loader.dataset import open_dataset
from hepdata.progress import Silent
from hept.paper.comparison import accuracy
from hept.paper.comparison.accuracy import Interrupted
from hept.paper.comparison.comparison import ComparisonSettings, run_comparison
from hept.paper.comparison.scaling import ScalingLimits
from hept.paper.comparison.trainings import TABLES, Budget
from hept_cli.train_compare import command

SMALL = ["n_layers=1", "hidden_dim=8", "n_heads=2", "block_size=20", "n_regions=9", "n_neighbors=8"]


def compare(dataset, config, out, models=("random", "hept", "gcn"), tables=("accuracy", "time"), epochs=1):
    lines = []
    settings = ComparisonSettings(
        models, tables, Budget(epochs=epochs), repeats=1, limits=ScalingLimits(max_points=1024)
    )
    found = run_comparison(
        open_dataset(dataset), config, settings, out, progress=Silent(), announce=lines.append
    )
    return found, lines


def test_every_table_is_filled(pileup_dataset, small_config, tmp_path, monkeypatch):
    monkeypatch.setattr("hept.paper.comparison.comparison.SCALING_MODELS", ("performer",))
    monkeypatch.setattr("hept.paper.comparison.comparison.list_sizes", lambda max_points: [64, 128])
    monkeypatch.setattr("hept.paper.comparison.comparison.ABLATIONS", ("or-only", "hept"))
    monkeypatch.setattr("hept.paper.comparison.trainings.GRID_TABLES", (1,))
    config = small_config("pileup-demo", "model.n_neighbors=8")
    found, _ = compare(pileup_dataset, config, tmp_path, ("random", "gcn"), TABLES)
    assert set(found.accuracy) == {"random", "gcn", "hept", "or-only"}
    assert list(found.grid) == [(1, 10), (1, 20), (1, 30)]
    assert all(score is not None for score, _ in found.grid.values())
    assert [curve["points"] for curve in found.scaling["performer"]] == [64, 128]
    assert found.latency is not None
    assert "random" not in found.cost
    assert not found.failed


def test_stored_results_are_reused(tracking_dataset, small_config, tmp_path):
    config = small_config("tracking-demo", "model.n_neighbors=8")
    first, lines = compare(tracking_dataset, config, tmp_path)
    assert sum(line.startswith("training") for line in lines) == 3
    again, lines = compare(tracking_dataset, config, tmp_path)
    assert lines == []
    assert again.accuracy == first.accuracy
    assert again.cost == first.cost
    # Another budget is another training.
    _, lines = compare(tracking_dataset, config, tmp_path, models=("gcn",), tables=("accuracy",), epochs=2)
    assert lines[0] == "training gcn"


def test_a_stopped_training_is_continued(tracking_dataset, small_config, tmp_path, monkeypatch):
    config = small_config("tracking-demo", "model.n_neighbors=8")
    real, calls = accuracy.fit, []

    def stopped_once(config, location, run, **more):
        calls.append(more["resume"])
        result = real(
            config.model_copy(update={"epochs": 1}) if len(calls) == 1 else config, location, run, **more
        )
        if len(calls) == 1:
            raise Interrupted
        return result

    monkeypatch.setattr(accuracy, "fit", stopped_once)
    first, _ = compare(tracking_dataset, config, tmp_path, ("hept",), ("accuracy",), epochs=2)
    assert first.is_stopped
    assert not first.accuracy
    again, _ = compare(tracking_dataset, config, tmp_path, ("hept",), ("accuracy",), epochs=2)
    assert calls == [False, True]
    assert again.accuracy["hept"]["epochs"] == 2


def test_a_run_killed_before_its_first_state_is_started_again(tracking_dataset, small_config, tmp_path):
    config = small_config("tracking-demo")
    settings = (("hept",), ("accuracy",))
    compare(tracking_dataset, config, tmp_path, *settings)
    (run,) = (tmp_path / "runs").iterdir()
    for path in run.iterdir():
        if path.is_file() and path.name not in ("run.json", "config.yaml", "last.safetensors"):
            path.unlink()
    for result in (tmp_path / "results").iterdir():
        result.unlink()
    found, _ = compare(tracking_dataset, config, tmp_path, *settings)
    assert found.accuracy["hept"]["epochs"] == 1


def test_one_diverged_system_does_not_stop_the_others(tracking_dataset, small_config, tmp_path, monkeypatch):
    real = accuracy.fit

    def diverging(config, location, run, **more):
        if config.model.kind == "gcn":
            raise JobError("step 3", found="a loss of nan", expected="a number", remedy="lower the rate")
        return real(config, location, run, **more)

    monkeypatch.setattr(accuracy, "fit", diverging)
    config = small_config("tracking-demo", "model.n_neighbors=8")
    found, _ = compare(tracking_dataset, config, tmp_path, ("gcn", "hept"), ("accuracy",))
    assert set(found.accuracy) == {"hept"}
    assert "a loss of nan" in found.failed["gcn"]


@pytest.mark.parametrize("task", ["tracking", "pileup"])
def test_random_is_not_trained(request, task, small_config, tmp_path):
    dataset = request.getfixturevalue(f"{task}_dataset")
    found, _ = compare(dataset, small_config(f"{task}-demo"), tmp_path, ("random",), ("accuracy",))
    assert found.accuracy["random"]["epochs"] == 0
    assert not (tmp_path / "runs").exists()


def test_the_command_prints_and_writes(tracking_dataset, tmp_path):
    arguments = [str(tracking_dataset), "--models", "random,gcn", "--tables", "accuracy,time"]
    arguments += ["--budget", "1epochs", "--repeats", "1", "--out", str(tmp_path / "out")]
    arguments += [part for setting in SMALL for part in ("--set", f"model.{setting}")]
    answer = CliRunner().invoke(
        command, [*arguments, "--json", str(tmp_path / "a.json")], catch_exceptions=False
    )
    assert answer.exit_code == 0, answer.output
    assert "Table 1" in answer.output
    assert (tmp_path / "out" / "compare.md").exists()
    assert json.loads((tmp_path / "a.json").read_text())["accuracy"]["rows"][1][0] == "GCN"


def test_the_command_refuses_what_it_does_not_know(tracking_dataset):
    with pytest.raises(InputError, match="did you mean 'hept'"):
        CliRunner().invoke(command, [str(tracking_dataset), "--models", "hep"], catch_exceptions=False)


def test_an_empty_test_split_is_told_before_anything_starts(make_dataset, small_config, tmp_path):
    dataset = make_dataset(splits={"train": 1, "valid": 1, "test": 0})
    with pytest.raises(InputError, match="split 'test': found no clouds"):
        compare(dataset, small_config("tracking-demo"), tmp_path / "out")


def test_a_dataset_of_the_other_task_is_refused(pileup_dataset, small_config, tmp_path):
    with pytest.raises(InputError, match="found a pileup dataset"):
        compare(pileup_dataset, small_config("tracking-demo"), tmp_path)


def test_fit_offers_every_system_of_the_catalog():
    from hept.paper.systems.catalog import NAMES
    from hept_cli.train_fit import command as fit_command

    text = (
        CliRunner()
        .invoke(fit_command, ["--help"], terminal_width=3000, max_content_width=3000)
        .output.replace("\n", " ")
    )
    words = set(re.findall(r"[\w-]+", text))
    assert set(NAMES) - {"hept"} <= words
