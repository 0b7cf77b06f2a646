"""Degenerate events work in fit, evaluation, prediction, report and all pictures."""

import warnings

import numpy as np
import pytest

from hepdata.cloud import PointCloud
from hepdata.loader.dataset import open_dataset
from hepdata.pictures.distributions import plot_dataset
from hept.evaluation.evaluator import evaluate
from hept.evaluation.predictor import predict
from hept.evaluation.tuning import save_clustering, tune_clustering
from hept.model.weights import load_model
from hept.report import write_report
from hept.training.trainer import fit


def rows_of(matrix):
    from hepdata.cloud import PairList

    ptr = np.concatenate([[0], matrix.sum(1).cumsum()]).astype(np.int32)
    return PairList(ptr, np.nonzero(matrix)[1].astype(np.int32))


def keep(cloud, index):
    """Some points of a cloud with their pairs; for tracking, all other pairs are negatives."""
    columns = {name: values[index] for name, values in cloud.columns.items()}
    if cloud.task == "pileup":
        return PointCloud("pileup", cloud.event_id, 0, columns)
    return pair_up(cloud, columns)


def pair_up(cloud, columns):
    particle = columns["particle_id"]
    is_same = (particle[:, None] == particle) & (particle[:, None] > 0)
    np.fill_diagonal(is_same, False)
    is_other = ~is_same & ~np.eye(len(particle), dtype=bool)
    return PointCloud("tracking", cloud.event_id, 0, columns, rows_of(is_same), rows_of(is_other))


def relabel(cloud, particle_id):
    columns = cloud.columns | {"particle_id": np.asarray(particle_id, dtype=np.int64)}
    columns["is_reconstructable"] = columns["particle_id"] > 0
    return pair_up(cloud, columns)


TRACKING_EVENTS = {
    "1 hit": lambda cloud: keep(cloud, [0]),
    "2 hits": lambda cloud: keep(cloud, [0, 1]),
    "5 hits": lambda cloud: keep(cloud, range(5)),
    "all noise": lambda cloud: relabel(cloud, np.zeros(cloud.n_points)),
    "one particle": lambda cloud: relabel(cloud, np.full(cloud.n_points, 7)),
    "one hit a particle": lambda cloud: relabel(cloud, np.arange(1, cloud.n_points + 1)),
    "one hit of all hits": lambda cloud: relabel(keep(cloud, [3]), [7]),
    "all in one place": lambda cloud: PointCloud(
        "tracking",
        cloud.event_id,
        0,
        cloud.columns | {name: np.zeros(cloud.n_points, np.float32) for name in ("eta", "phi", "r", "z")},
        cloud.positives,
        cloud.negatives,
    ),
}


def mark(**values):
    def change(cloud):
        columns = {name: np.full_like(cloud.columns[name], value) for name, value in values.items()}
        return PointCloud("pileup", cloud.event_id, 0, cloud.columns | columns)

    return change


PILEUP_EVENTS = {
    "1 particle": lambda cloud: keep(cloud, [0]),
    "2 particles": lambda cloud: keep(cloud, [0, 1]),
    "no neutral": mark(charge=1, pid_class=0, is_scored=False),
    "no charged": mark(charge=0, pid_class=1, is_scored=True),
    "all leading": mark(is_leading=True),
    "none leading": mark(is_leading=False),
}


def go_through(dataset, config, run, pictures):
    """The whole workflow of a user; warnings of numpy and torch are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result = fit(config, dataset, run)
        opened = open_dataset(dataset)
        metrics = evaluate(run, dataset)
        trained = load_model(run)
        predict(trained, opened, run / "predictions")
        if trained.is_embedding:
            save_clustering(run, tune_clustering(trained, opened)[0].clustering)
        assert plot_dataset(opened, pictures, split="train")
        assert write_report(run, opened).stat().st_size > 10_000
    return result, metrics


@pytest.mark.parametrize("name", TRACKING_EVENTS)
def test_tracking(make_dataset, small_config, tmp_path, name):
    dataset = make_dataset(change=TRACKING_EVENTS[name])
    result, metrics = go_through(dataset, small_config(), tmp_path / "run", tmp_path / "pictures")
    assert (result.stopped, metrics["n_clouds"]) == ("finished", 2)


@pytest.mark.parametrize("name", PILEUP_EVENTS)
def test_pileup(make_dataset, small_config, tmp_path, name):
    dataset, config = make_dataset("pileup", change=PILEUP_EVENTS[name]), small_config("pileup-demo")
    result, metrics = go_through(dataset, config, tmp_path / "run", tmp_path / "pictures")
    assert (result.stopped, metrics["n_clouds"]) == ("finished", 2)
