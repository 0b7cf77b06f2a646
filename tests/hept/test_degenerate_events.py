"""Events at the edge of physics go through fit, evaluation, prediction, report and all pictures."""

import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest

import hepdata
import hept
from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hepdata.pictures.distributions import plot_dataset
from hept.evaluation.evaluator import evaluate
from hept.evaluation.predictor import predict
from hept.evaluation.tuning import save_clustering, tune_clustering
from hept.model.weights import load_model
from hept.report import write_report
from hept.tracks.finder import Clustering
from hept.training.trainer import fit


def rows_of(matrix):
    from hepdata.cloud import PairList

    ptr = np.concatenate([[0], matrix.sum(1).cumsum()]).astype(np.int32)
    return PairList(ptr, np.nonzero(matrix)[1].astype(np.int32))


def keep(cloud, index):
    """Some points of a cloud, with pairs among them; tracking has every other pair as a negative."""
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
    """Everything that a user does with a dataset; warnings of numpy and torch are errors."""
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


TINY = {
    "model.n_layers": 1,
    "model.hidden_dim": 8,
    "model.n_heads": 2,
    "model.block_size": 20,
    "model.n_regions": 9,
    "epochs": 1,
}


def check_whole_chain(dataset, folder, *, preset):
    """From a built dataset to pictures, as a user goes; returns the figures of merit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        run = hept.fit(dataset, folder / "run", preset=preset, settings=TINY, device="cpu")
        if dataset.task == "tracking":
            hept.tune_clustering(run)
        metrics = hept.evaluate(run)
        hept.predict(run, dataset, folder / "points.parquet")
        assert len(pq.read_table(folder / "points.parquet")) == dataset.manifest.statistics().n_points
        assert hept.write_report(run).stat().st_size > 10_000
        assert hepdata.plot(dataset, folder / "pictures")
        hepdata.view(dataset, folder / "events.html", split=dataset.splits[0])
        hepdata.publish(dataset, folder / "published", events=0)
        hept.compare_runs([run, run], folder / "runs.html", device="cpu")
        if dataset.task == "tracking":
            hept.score_tracks(folder / "points.parquet", dataset).to_json()
    return metrics


RAW_TRACKING = {
    "1 hit": lambda truth: truth.hit_id[truth.particle_id > 0][:1],
    "one particle": lambda truth: truth.hit_id[truth.particle_id == truth.particle_id.max()],
    "one hit a particle": lambda t: t.hit_id[(t.particle_id > 0) & ~t.particle_id.duplicated()],
    "one hit and noise": lambda t: t.hit_id[(t.particle_id == 0) | (t.particle_id == t.particle_id.max())],
}


@pytest.mark.parametrize("name", RAW_TRACKING)
def test_raw_tracking_events(trackml_copy, keep_hits, tmp_path, name):
    keep_hits(trackml_copy, RAW_TRACKING[name])
    dataset = hepdata.build_tracking(trackml_copy, tmp_path / "set")
    assert check_whole_chain(dataset, tmp_path, preset="tracking-demo")["n_clouds"] == 1
    tracked = hept.find_raw_tracks(tmp_path / "run", trackml_copy, tmp_path / "tracks.csv", device="cpu")
    assert tracked.n_hits == dataset.manifest.statistics().n_points


RAW_PILEUP = {
    "1 particle": (1, {"IsPU": np.ones(1)}),
    "no neutral": (30, {"Charge": np.ones(30), "PID": np.full(30, 211)}),
    "all neutral and soft": (30, {"Charge": np.zeros(30), "PID": np.full(30, 22), "PT": np.full(30, 0.2)}),
    "none leading": (30, {"IsPU": np.ones(30)}),
}


@pytest.mark.parametrize("name", RAW_PILEUP)
def test_raw_pileup_events(write_delphes, tmp_path, name):
    raw = write_delphes(*RAW_PILEUP[name])
    dataset = hepdata.build_pileup(raw, tmp_path / "set", split="50/25/25")
    assert check_whole_chain(dataset, tmp_path, preset="pileup-demo")["n_clouds"] == 1
    hept.clean(tmp_path / "run", raw, tmp_path / "friend.root", device="cpu")


@pytest.mark.parametrize(
    "choice",
    [{"min_pt": 1e6, "noise": False}, {"events": "1-5"}, {"max_events": 0}],
    ids=["pt", "range", "none"],
)
def test_no_tracking_event_selected(trackml_events, tmp_path, choice):
    with pytest.raises(
        InputError, match=r"no particle with pt of at least|no event with an id from|max_events"
    ) as error:
        hepdata.build_tracking(trackml_events, tmp_path / "set", **choice)
    assert len(str(error.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("choice", [{"max_eta": 1e-6}, {"max_events": 0}], ids=["eta", "none"])
def test_no_particle_selected(write_delphes, tmp_path, choice):
    path = write_delphes(30, {})
    with pytest.raises(InputError, match=r"no points in any of 4 events|found no events|max_events") as error:
        hepdata.build_pileup(path, tmp_path / "place" / "set", **choice)
    assert len(str(error.value).splitlines()) == 1
    assert not (tmp_path / "place" / "set").exists()


def check_unlabelled(dataset, model, folder):
    """Predictions and pictures need no truth; everything else says in one line that it is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        hept.predict(model, dataset, folder / "points.parquet")
        assert len(pq.read_table(folder / "points.parquet")) == dataset.manifest.statistics().n_points
        assert hepdata.plot(dataset, folder / "pictures", split="train")
        assert hepdata.validate(dataset) == []
    split = dataset.splits[0]
    for use in (
        lambda: hept.fit(dataset, folder / "new", preset=f"{dataset.task}-demo", device="cpu"),
        lambda: hept.evaluate(model, dataset, split),
        lambda: hept.write_report(model, dataset, split),
        *([lambda: hept.tune_clustering(model, dataset, split)] if dataset.task == "tracking" else []),
    ):
        with pytest.raises(InputError, match="expected a dataset with truth") as error:
            use()
        assert len(str(error.value).splitlines()) == 1
    assert not (folder / "new").exists()


UNLABELLED = {
    "whole": lambda truth: truth.hit_id,
    "1 hit": lambda truth: truth.hit_id[:1],
    "all noise": lambda truth: truth.hit_id[truth.particle_id == 0],
}


@pytest.mark.parametrize("name", UNLABELLED)
def test_unlabelled_tracking_events(trackml_copy, keep_hits, tracking_dataset, small_config, tmp_path, name):
    model = fit(small_config("tracking-demo", "epochs=1"), tracking_dataset, tmp_path / "run").run
    keep_hits(trackml_copy, UNLABELLED[name])
    for path in (*trackml_copy.glob("*-truth.csv"), *trackml_copy.glob("*-particles.csv")):
        path.unlink()
    check_unlabelled(hepdata.build_tracking(trackml_copy, tmp_path / "set"), model, tmp_path)


@pytest.mark.parametrize("n", [1, 30])
def test_unlabelled_pileup_events(write_delphes, pileup_dataset, small_config, tmp_path, n):
    model = fit(small_config("pileup-demo", "epochs=1"), pileup_dataset, tmp_path / "run").run
    dataset = hepdata.build_pileup(write_delphes(n, {}), tmp_path / "set", unlabelled=True)
    check_unlabelled(dataset, model, tmp_path)


@pytest.mark.slow
def test_events_of_150_000_hits(tmp_path):
    hepdata.simulate_tracking(tmp_path / "raw", events=3, hits_per_event=150_000, seed=1)
    dataset = hepdata.build_tracking(
        tmp_path / "raw", tmp_path / "set", split="train=1000,valid=1001,test=1002"
    )
    assert min(cloud.n_points for name in dataset for cloud in dataset[name]) > 140_000
    run = hept.fit(dataset, tmp_path / "run", preset="tracking-demo", settings=TINY, device="cpu")
    assert hept.evaluate(run)["n_clouds"] == 1
    # After one step all embeddings are close: with the default eps, all hits are neighbours.
    save_clustering(run.path, Clustering(eps=1e-4))
    hept.predict(run, dataset, tmp_path / "points.parquet", split="test")
    assert hept.write_report(run).stat().st_size > 10_000
    assert hepdata.plot(dataset, tmp_path / "pictures")


@pytest.mark.slow
def test_events_of_150_000_particles(tmp_path):
    hepdata.simulate_pileup(tmp_path / "raw.root", events=4, pileup=800, seed=1)
    dataset = hepdata.build_pileup(tmp_path / "raw.root", tmp_path / "set", split="50/25/25")
    assert min(cloud.n_points for name in dataset for cloud in dataset[name]) > 140_000
    assert check_whole_chain(dataset, tmp_path, preset="pileup-demo")["n_clouds"] == 1
