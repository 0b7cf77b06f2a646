"""A dataset can define a new task without any change of the package."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import average_precision_score

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hepdata.pictures.distributions import plot_dataset
from hepdata.schema import Column, ModelInput, Schema, Target
from hept.evaluation.evaluator import evaluate
from hept.evaluation.inference import run_model
from hept.evaluation.predictor import predict
from hept.evaluation.tuning import save_clustering, tune_clustering
from hept.metrics.figures_of_merit import FIGURES
from hept.model.weights import load_model
from hept.objectives.objective import OBJECTIVES
from hept.report.write import write_report
from hept.runs.plan import plan_settings
from hept.settings.load import check_config
from hept.training.trainer import fit

CELLS = (
    Column("cell_id", "int32", "", "number of the cell"),
    Column("eta", "float32", "", "pseudorapidity"),
    Column("phi", "float32", "deg", "azimuth", period=360.0),
    Column("energy", "float32", "MeV", "deposited energy"),
    Column("sampling", "int32", "", "layer of the calorimeter", n_classes=4),
)
INPUTS = tuple(ModelInput.of(column) for column in CELLS[1:])
PLACES = (INPUTS[0], ModelInput.of(CELLS[2], np.pi / 180))
SIGNAL = Schema(
    task="calorimeter",
    columns=(*CELLS, Column("is_signal", "bool", "", "not noise", is_label=True)),
    features=INPUTS,
    coordinates=PLACES,
    target=Target("classification", "is_signal", point_id="cell_id", label_names=("noise", "signal")),
)
SHOWERS = Schema(
    task="showers",
    columns=(*CELLS, Column("shower", "int64", "", "shower, 0 for noise", is_label=True)),
    features=INPUTS,
    coordinates=PLACES,
    target=Target("pairs", "shower", point_id="cell_id", label_names=("noise", "shower")),
)


def cells(event_id, schema=SIGNAL):
    """Four showers of twelve cells each, and as many cells of noise."""
    rng = np.random.default_rng(event_id)
    shower = np.repeat([1, 2, 3, 4, 0], [12, 12, 12, 12, 48])
    centres = np.concatenate([[[0.0, 0.0]], rng.uniform([-2, -170], [2, 170], (4, 2))])
    spread = np.where(shower[:, None] > 0, [0.1, 6.0], [0.0, 0.0])
    eta, phi = (centres[shower] + spread * rng.normal(size=(96, 2))).T
    is_noise = shower == 0
    columns = {
        "cell_id": 1000 + np.arange(96),
        "eta": np.where(is_noise, rng.uniform(-2, 2, 96), eta),
        "phi": np.where(is_noise, rng.uniform(-180, 180, 96), phi),
        "energy": rng.exponential(np.where(is_noise, 50.0, 5000.0)),
        "sampling": rng.integers(0, 4, 96),
        "is_signal": ~is_noise,
        "shower": shower,
    }
    order = np.argsort(columns["eta"])
    stored = {c.name: columns[c.name][order].astype(c.dtype) for c in schema.columns}
    pairs = () if schema is SIGNAL else pairs_of(shower[order])
    return PointCloud(schema.task, event_id, 0, stored, *pairs)


def pairs_of(label):
    same = (label[:, None] == label) & (label[:, None] > 0) & ~np.eye(len(label), dtype=bool)
    return [
        PairList(np.concatenate([[0], m.sum(1).cumsum()]).astype(np.int32), np.nonzero(m)[1].astype(np.int32))
        for m in (same, label[:, None] != label)
    ]


def configure(small_config, preset, task, *changes):
    log = "{column: energy, compression: log, standardise: true}"
    features = f"data.features=[{log}, {{column: '*', standardise: true}}]"
    settings = small_config(preset, "epochs=3", features, *changes).model_dump()
    return check_config({**settings, "task": task}, where="test")


def test_a_new_classification_task(write_task, small_config, tmp_path):
    dataset = write_task(SIGNAL, cells)
    run = fit(
        configure(small_config, "pileup-demo", "calorimeter", "epochs=15"), dataset, tmp_path / "run"
    ).run
    trained, opened = load_model(run), open_dataset(dataset)
    assert (trained.task, trained.objective) == ("calorimeter", "classification")
    assert [(entry.column, entry.unit) for entry in trained.features][:2] == [("energy", "MeV"), ("eta", "")]
    found = evaluate(run, dataset)
    # Computed by another library over all points, since the target has no selection.
    scores, labels = zip(
        *(
            (out.reshape(-1).numpy(), batch.is_signal.numpy())
            for out, batch in run_model(trained, opened, "test")
        ),
        strict=True,
    )
    expected = average_precision_score(np.concatenate(labels), np.concatenate(scores))
    assert found["auc"] == pytest.approx(expected)
    assert expected > 0.8
    predict(trained, opened, tmp_path / "cells.parquet", split="test")
    table = pq.read_table(tmp_path / "cells.parquet")
    assert table.column_names == ["event_id", "sector", "cell_id", "score", "weight"]
    assert set(table["cell_id"].to_pylist()) == set(range(1000, 1096))
    page = write_report(run, opened, progress=None).read_text()
    assert "HEPT calorimeter" in page
    assert len(plot_dataset(opened, tmp_path / "pictures")) == 3 + 3
    assert opened.info().as_dict()["splits"]["class ratio (pos./neg.)"]["all"] == 1


def test_a_new_pairs_task(write_task, small_config, tmp_path):
    dataset = write_task(SHOWERS, lambda event_id: cells(event_id, SHOWERS))
    result = fit(configure(small_config, "tracking-demo", "showers"), dataset, tmp_path / "run")
    run, opened = result.run, open_dataset(dataset)
    assert result.metric == "ap"
    found = evaluate(run, dataset)
    assert set(found) == {"loss", "ap", "precision19", "recall19", "n_clouds"}
    # A shower is a ninth of the cells.
    assert found["ap"] > 0.2
    trained = load_model(run)
    # An angle in degrees: the period is the column's, the scale the input's.
    assert trained.coords[1].final_period == pytest.approx(2 * np.pi)
    save_clustering(run, tune_clustering(trained, opened)[0].clustering)
    predict(trained, opened, tmp_path / "cells.parquet")
    assert pq.read_table(tmp_path / "cells.parquet").column_names[2:] == ["cell_id", "embedding", "track_id"]
    assert "efficiency_double_majority" in write_report(run, opened).read_text()


def test_an_objective_and_a_figure_of_its_own(write_task, small_config, tmp_path, monkeypatch):
    @dataclass
    class Errors:
        total: float = 0.0

        def add(self, columns, answer):
            self.total += float(np.abs(answer - np.log(columns["energy"])).sum())

        def result(self):
            return {"absolute_error": self.total}

    @dataclass
    class Energies:
        figures: list
        squares: float = 0.0

        def add(self, out, batch):
            self.squares += float((out.reshape(-1) - batch.energy.log()).square().mean())
            for figure in self.figures:
                columns = {name: values.numpy() for name, values in batch.columns.items()}
                figure.add(columns, out.reshape(-1).numpy())

        def result(self):
            figures = [figure.result() for figure in self.figures]
            return {"minus_error": -self.squares, **{k: v for f in figures for k, v in f.items()}}

    @dataclass(frozen=True)
    class Regression:
        is_embedding: ClassVar[bool] = False
        needs_pairs: ClassVar[bool] = False
        metric_label: ClassVar[str] = "error"
        figures: tuple = ()
        metric: str = "minus_error"

        @classmethod
        def make(cls, target, loss, *, only_metric):
            return cls(() if only_metric else target.figures)

        def count(self, batch):
            return torch.tensor(batch.n_points)

        def loss(self, out, batch, *, normaliser, generator):
            return (out.reshape(-1) - batch.energy.log()).square().sum() / (
                batch.n_points if normaliser is None else normaliser
            )

        def scores(self):
            return Energies([FIGURES[name]() for name in self.figures])

    target = replace(SIGNAL.target, objective="regression", figures=("errors",))
    dataset = write_task(replace(SIGNAL, target=target), cells)
    config = configure(small_config, "pileup-demo", "calorimeter")
    with pytest.raises(InputError, match=r"objective 'regression': found no objective.*import the module"):
        fit(config, dataset, tmp_path / "early")
    monkeypatch.setitem(OBJECTIVES, "regression", Regression)
    monkeypatch.setitem(FIGURES, "errors", Errors)
    run = fit(config, dataset, tmp_path / "run").run
    assert json.loads((run / "run.json").read_text())["objective"] == "regression"
    found = evaluate(run, dataset)
    assert found["absolute_error"] > 0
    assert -found["minus_error"] / 2 == pytest.approx(found["loss"])


def test_a_model_is_not_evaluated_on_another_task(write_task, small_config, tmp_path):
    dataset = write_task(SIGNAL, cells)
    run = fit(configure(small_config, "pileup-demo", "calorimeter", "epochs=1"), dataset, tmp_path / "r").run
    other = write_task(
        replace(SHOWERS, task="calorimeter-showers"), lambda event_id: cells(event_id, SHOWERS)
    )
    with pytest.raises(InputError, match="found a calorimeter-showers dataset; expected a calorimeter"):
        evaluate(run, other)


def test_presets_for_any_task_follow_the_objective(write_task, tmp_path):
    dataset = write_task(SIGNAL, cells)
    config, _ = plan_settings(dataset, None, [], "cpu")
    assert (config.task, config.model.out_dim) == ("calorimeter", 1)
    with pytest.raises(
        InputError, match=r"model.out_dim: found 12 outputs of a point; expected 1 for the obj"
    ):
        plan_settings(dataset, "points-pairs", [], "cpu")


def test_a_dataset_without_a_target_or_with_unknown_figures_is_one_line(write_task, small_config, tmp_path):
    config = configure(small_config, "pileup-demo", "calorimeter")
    dataset = write_task(replace(SIGNAL, target=None), cells)
    with pytest.raises(InputError, match="task 'calorimeter' without a target; expected a schema"):
        fit(config, dataset, tmp_path / "run")
    target = replace(SIGNAL.target, figures=("cleanin",))
    other = write_task(replace(SIGNAL, target=target, task="other"), cells)
    with pytest.raises(
        InputError, match=r"figure of merit 'cleanin': found no such.*did you mean 'cleaning'"
    ):
        fit(check_config({**config.model_dump(), "task": "other"}, where=""), other, tmp_path / "run")
