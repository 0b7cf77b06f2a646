import math
import re

import numpy as np
import pytest

import hepdata
import hept
from hept.evaluation.evaluator import evaluate
from hept.report.compare_runs import format_estimate
from hept.settings.differences import find_nearest_preset, list_differences
from hept.settings.load import load_config
from hept.training.trainer import fit

SMALL = ["model.n_layers=1", "model.hidden_dim=8", "model.n_heads=2", "epochs=2"]


@pytest.fixture(scope="module", params=["tracking", "pileup"])
def runs(request, tmp_path_factory):
    """Two runs that differ in their seed and number of epochs, in one folder."""
    location = request.getfixturevalue(f"{request.param}_dataset")
    folder = tmp_path_factory.mktemp("runs")
    for name, changes in (("a", []), ("b", ["seed=1", "epochs=1"])):
        fit(load_config(f"{request.param}-demo", [*SMALL, *changes]), location, folder / name)
    return folder, location


def test_metrics_are_means_over_clouds_with_paired_differences(runs, tmp_path):
    folder, location = runs
    found = hept.compare_runs([folder / "a", folder / "b"], tmp_path / "page.html", split="valid")
    assert found.settings == {"seed": [42, 1], "epochs": [2, 1]}
    split = hepdata.open_dataset(location)["valid"]
    metric = "ap@0.9" if "ap@0.9" in found.metrics else "auc"
    if metric == "ap@0.9":
        # A mean over clouds for the whole split too.
        for run, (mean, error) in zip("ab", found.metrics[metric], strict=True):
            assert mean == pytest.approx(evaluate(folder / run, location, "valid")[metric])
            assert error > 0
    assert found.differences[metric][0] == (0, 0)
    mean, error = found.differences[metric][1]
    first, second = (value for value, _ in found.metrics[metric])
    assert mean == pytest.approx(second - first)
    assert len(split) > 1
    assert 0 < error < 1


def test_the_page_shows_all_of_it(runs, tmp_path):
    folder, _ = runs
    page = hept.compare_runs([folder / "a", folder / "b"], tmp_path / "new" / "page.html", split="valid").page
    text = page.read_text()
    assert re.findall("<h2>(.*?)</h2>", text) == ["Runs", "Settings that differ", "Metrics", "Training"]
    assert "±" in text
    assert text.count("data:image/png") == 1


def test_runs_on_different_datasets_have_no_differences(runs, tmp_path, make_dataset):
    folder, _ = runs
    task = hept.open_run(folder / "a").config.task
    other = make_dataset(task, name="other", splits={"train": 2, "valid": 2})
    fit(load_config(f"{task}-demo", SMALL), other, tmp_path / "c")
    found = hept.compare_runs([folder / "a", tmp_path / "c"], tmp_path / "page.html", split="valid")
    assert found.differences == {}
    assert len(next(iter(found.metrics.values()))) == 2


def test_one_run_cannot_be_compared(runs, tmp_path):
    with pytest.raises(hepdata.InputError, match="found 1 run; expected two or more"):
        hept.compare_runs([runs[0] / "a"], tmp_path / "page.html")
    with pytest.raises(hepdata.InputError, match="no such file or folder"):
        hept.compare_runs([runs[0] / "a", tmp_path / "none"], tmp_path / "page.html")


def test_an_index_lists_every_run_and_skips_damaged_ones(runs):
    folder, _ = runs
    damaged = folder / "damaged"
    damaged.mkdir(exist_ok=True)
    (damaged / "run.json").write_text("{")
    (folder / "b" / "report.html").write_text("a report")
    page, entries = hept.index_runs(folder)
    assert {entry.path.name: entry.epochs for entry in entries} == {"a": 2, "b": 1}
    assert "seed=1" in next(entry.changed for entry in entries if entry.path.name == "b")
    assert re.findall('href="(.*?)"', page.read_text()) == ["b/report.html"]


def test_a_folder_without_runs_is_one_line(tmp_path):
    with pytest.raises(hepdata.InputError, match="found no runs"):
        hept.index_runs(tmp_path)


def test_the_nearest_preset_is_the_one_it_was_made_from():
    changed = load_config("tracking-6k", {"seed": 3, "model.n_tables": 5})
    name, changes = find_nearest_preset(changed)
    assert name == "tracking-6k"
    assert changes == {"seed": [42, 3], "model.n_tables": [3, 5]}
    assert list_differences([changed, changed]) == {}


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        ((0.43337, 0.0951), "0.433 ± 0.095"),
        ((0.5, 0.01), "0.500 ± 0.010"),
        ((-0.000322, 0.0074), "-0.0003 ± 0.0074"),
        ((1234.56, 17.0), "1235 ± 17"),
        ((0.5, 0.0), "0.5 ± 0"),
        ((0.5, math.nan), "0.5"),
        ((np.nan, np.nan), "–"),
    ],
)
def test_an_estimate_is_shown_with_what_is_known(estimate, text):
    assert format_estimate(estimate) == text
