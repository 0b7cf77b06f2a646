"""Training in half precision: losses, clipping, overflows, saved scales and validation, on a CPU."""

import numpy as np
import pytest
import torch

from hepdata import open_dataset
from hepdata.errors import JobError
from hept.evaluation.evaluator import score_split
from hept.evaluation.inference import open_split
from hept.model.dataset_checks import find_target
from hept.model.network import InPrecision
from hept.model.weights import load_model
from hept.objectives.objective import make_objective
from hept.runs.folder import LAST, RunFolder
from hept.training.saved_state import read_state, write_state
from hept.training.trainer import fit

# Without it, half precision would draw the same dropout, but losses would be too noisy to compare.
QUIET = ("model.dropout=0", "loss.random_negatives=0")


def column(run, name):
    return np.array([float(row[name]) for row in RunFolder(run).read_rows("steps")])


@pytest.mark.parametrize("task", ["tracking", "pileup"])
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_losses_and_gradients_are_those_of_float32(request, small_config, tmp_path, task, precision):
    dataset = request.getfixturevalue(f"{task}_dataset")
    runs = [
        fit(small_config(f"{task}-demo", *QUIET, f"precision={each}"), dataset, tmp_path / each).run
        for each in ("32-true", precision)
    ]
    assert column(runs[1], "loss")[0] == pytest.approx(column(runs[0], "loss")[0], rel=5e-3)
    assert column(runs[1], "loss") == pytest.approx(column(runs[0], "loss"), rel=5e-2)
    # Of the gradient itself: the scaled one is 65,536 times longer.
    assert column(runs[1], "grad_norm") == pytest.approx(column(runs[0], "grad_norm"), rel=0.1)
    assert not np.array_equal(column(runs[0], "loss"), column(runs[1], "loss"))


@pytest.fixture
def overflowing(tracking_dataset, small_config, tmp_path):
    """A run in float16 after an epoch of four steps, its scale so large that every loss is infinite."""
    out = tmp_path / "run"
    config = small_config("tracking-demo", "precision=16-mixed", "epochs=2")
    fit(config, tracking_dataset, out)
    state = read_state(out / "resume-1.pt")
    assert state["position"]["step"] == 4
    assert state["scaler"]["scale"] == 2.0 ** (16 - state["position"]["skipped"])
    state["scaler"]["scale"] = 2.0**126
    write_state(out / "resume.pt", state)
    return config, out, state


def test_overflows_are_skipped_and_counted_and_lower_the_scale(overflowing, tracking_dataset):
    config, out, before = overflowing
    result = fit(config, tracking_dataset, out, resume=True)
    norms = column(out, "grad_norm")[4:]
    n_overflows = int((~np.isfinite(norms)).sum())
    assert result.steps == 8
    n_before = before["position"]["skipped"]
    assert 1 <= n_overflows == result.skipped - n_before
    after = read_state(out / "resume.pt")
    assert after["scaler"]["scale"] == 2.0 ** (126 - n_overflows)
    assert np.isfinite(column(out, "loss")).all()
    assert all(torch.isfinite(each).all() for each in after["network"].values())
    # Adam counts the steps that it has made.
    assert {float(each["step"]) for each in after["optimizer"]["state"].values()} == {8.0 - result.skipped}
    assert fit(config, tracking_dataset, out, resume=True).skipped >= result.skipped


def test_a_loss_that_is_not_finite_is_no_overflow(make_dataset, small_config, tmp_path):
    def spoil(cloud):
        cloud.columns["r"][5] = np.nan
        return cloud

    config = small_config("tracking-demo", "precision=16-mixed", "data.features=null")
    with pytest.raises(JobError, match=r"step 1: found a loss of nan on event \d sector 0"):
        fit(config, make_dataset(change=spoil), tmp_path / "run")


def test_validation_runs_what_training_runs(tracking_dataset, small_config, tmp_path):
    run = fit(small_config("tracking-demo", "precision=bf16-mixed"), tracking_dataset, tmp_path / "run").run
    told = float(RunFolder(run).read_rows("metrics")[-1]["valid_loss"])
    trained = load_model(run / LAST)
    opened = open_dataset(tracking_dataset)
    loader = open_split(trained, opened, "valid", pairs=True)
    objective = make_objective(find_target(opened), trained.config.loss, only_metric=True)
    mixed = InPrecision(trained.network, "bf16-mixed")
    assert score_split(mixed, loader, objective)["loss"] == pytest.approx(told, rel=1e-6)
    assert score_split(trained.network, loader, objective)["loss"] != pytest.approx(told, rel=1e-6)
