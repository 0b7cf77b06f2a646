"""Figures of a run at Weights & Biases (offline) and MLflow (in a folder), read back by these libraries."""

import sys

import pytest

import hept
from hepdata.errors import InputError
from hept.runs.folder import RunFolder
from hept.training.loggers import Forgiving

SMALL = {"model.n_layers": 1, "model.hidden_dim": 8, "model.n_heads": 2, "epochs": 2, "model.head_width": 16}


def fit(dataset, out, **changes):
    hept.fit(dataset, out, preset="tracking-demo", settings=SMALL, threads=1, **changes)
    return RunFolder(out)


def test_csv_keeps_only_the_tables(tracking_dataset, tmp_path):
    run = fit(tracking_dataset, tmp_path / "run", logger="csv")
    assert len(run.read_rows("metrics")) == 2
    assert not (run.path / "tensorboard").exists()


def test_mlflow_has_the_figures_and_settings_of_the_tables(tracking_dataset, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs pip install 'hept[mlflow]'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "study")
    run = fit(tracking_dataset, tmp_path / "run", logger="mlflow")
    client = mlflow.MlflowClient((tmp_path / "mlruns").as_uri())
    (found,) = client.search_runs([client.get_experiment_by_name("study").experiment_id])
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "run"
    assert found.data.params["model.hidden_dim"] == "8"
    kept = client.get_metric_history(found.info.run_id, "train/loss")
    rows = run.read_rows("steps")
    assert [(m.step, m.value) for m in kept] == [(int(r["step"]), float(r["loss"])) for r in rows]
    metric = client.get_metric_history(found.info.run_id, "epoch/valid_ap_at_0.9")
    assert [m.value for m in metric] == [float(row["valid_ap@0.9"]) for row in run.read_rows("metrics")]


def test_wandb_offline_keeps_the_figures_in_the_run_folder(tracking_dataset, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs pip install 'hept[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = fit(tracking_dataset, tmp_path / "run", logger="wandb")
    (path,) = run.path.glob("wandb/offline-run-*/run-*.wandb")
    # Its format is not public; numbers stand in it as JSON text.
    kept, first = path.read_bytes(), run.read_rows("steps")[0]
    assert b"train/loss" in kept
    assert first["loss"].encode() in kept
    assert b"valid_ap@0.9" in kept
    assert (run.path / "logger-id.txt").read_text().strip() in path.name


def test_a_missing_library_is_told_before_anything_is_made(tracking_dataset, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setattr("hept.runs.plan.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"mlflow is not installed.*pip install 'hept\[mlflow\]'"):
        fit(tracking_dataset, tmp_path / "run", logger="mlflow")
    assert not (tmp_path / "run").exists()


def test_an_unknown_logger_names_the_known_ones(tracking_dataset, tmp_path):
    with pytest.raises(InputError, match="'csv', 'tensorboard', 'wandb' or 'mlflow'"):
        fit(tracking_dataset, tmp_path / "run", logger="comet")


def test_a_service_that_fails_is_told_once_and_left_alone():
    class Broken:
        calls = 0

        def add(self, *_):
            self.calls += 1
            raise ConnectionError("no\nroute")

    broken, lines = Broken(), []
    logger = Forgiving(broken, "mlflow", lines.append)
    for step in range(3):
        logger.add("loss", 1.0, step)
    logger.flush()
    logger.close()
    assert broken.calls == 1
    assert len(lines) == 1
    assert "mlflow failed (ConnectionError: no route)" in lines[0]
