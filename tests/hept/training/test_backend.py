"""`model.backend` chooses the kernel of the attention in training; weights do not depend on it."""

import importlib.util

import pytest

import hepdata
from hepdata.errors import InputError
from hept.attention.kernels import BACKENDS, native
from hept.model.weights import load_model
from hept.runs.folder import RunFolder
from hept.training.trainer import fit


def losses(run):
    return [float(row["loss"]) for row in RunFolder(run).read_rows("steps")]


def test_a_chosen_backend_trains_and_is_not_needed_later(
    tracking_dataset, small_config, tmp_path, monkeypatch
):
    used = []
    plain = BACKENDS["plain"]
    monkeypatch.setitem(BACKENDS, "plain", lambda *args: used.append(1) or plain(*args))
    runs = [
        fit(
            small_config("tracking-demo", "epochs=1", f"model.backend={each}"),
            tracking_dataset,
            tmp_path / each,
        )
        for each in ("auto", "plain")
    ]
    # One layer; 4 steps of training and 2 clouds of validation.
    assert len(used) == 6
    assert losses(runs[1].run) == pytest.approx(losses(runs[0].run), rel=1e-3)
    load_model(runs[1].run)(hepdata.open_dataset(tracking_dataset)["test"][0])
    assert len(used) == 6


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (["model.backend=triton"], "model.backend=triton: found no such kernel for float32 on cpu"),
        (["model.backend=native", "precision=64-true"], "found no such kernel for float64 on cpu"),
    ],
)
def test_a_backend_that_cannot_run_is_one_line(tracking_dataset, small_config, tmp_path, changes, found):
    with pytest.raises(InputError, match=found + ".*set model.backend=auto"):
        fit(small_config("tracking-demo", *changes), tracking_dataset, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(importlib.util.find_spec("hept.attention.kernels._native") is None, reason="not compiled")
def test_native_trains(tracking_dataset, small_config, tmp_path):
    assert native._library is not None
    config = small_config("tracking-demo", "model.backend=native", "epochs=1")
    assert fit(config, tracking_dataset, tmp_path / "run").steps == 4
