import json

import numpy as np
import pandas as pd
import pytest

import hepdata
import hept
from hepdata.errors import InputError
from hept.evaluation.truth import list_truth
from hept.metrics.missing_pt import resolution
from hept.metrics.resolution import Residuals
from hept.metrics.tracks import match_labels
from hept.model.dataset_checks import find_target
from hept.settings.load import load_config
from hept.tracks.helix import HitError
from hept.tracks.table import fit_tracks
from hept.training.trainer import fit


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    hepdata.simulate_tracking(folder, events=10, hits_per_event=300, seed=3)
    return folder


@pytest.fixture(scope="module")
def run(raw, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    dataset = hepdata.build_tracking(raw, folder / "data")
    small = ["model.n_layers=1", "model.hidden_dim=8", "model.n_heads=2", "epochs=1"]
    return fit(load_config("tracking-demo", small), dataset, folder / "a").run


def write_truth(dataset, split, path):
    clouds = [dataset[split][i] for i in range(len(dataset[split]))]
    rows = [
        pd.DataFrame({"event_id": c.event_id, "hit_id": c.hit_id, "track_id": c.particle_id}) for c in clouds
    ]
    pd.concat(rows).query("track_id > 0").drop_duplicates().to_csv(path, index=False)


@pytest.mark.parametrize("n_sectors", [1, 10])
def test_truth_scores_one_in_whole_events_and_in_sectors(raw, tmp_path, n_sectors):
    dataset = hepdata.build_tracking(raw, tmp_path / "data", sectors=n_sectors, pairs="none")
    write_truth(dataset, "train", tmp_path / "truth.csv")
    scored = hept.score_tracks(tmp_path / "truth.csv", dataset, "train", picture=tmp_path / "t.png")
    found = scored.score.summary()
    assert found["efficiency_perfect"] == 1
    assert found["trackml_score"] == pytest.approx(1)
    assert found["fake_rate"] == found["duplicate_rate"] == 0
    assert (scored.n_events, scored.n_without_tracks, scored.n_unknown_hits) == (8, 0, 0)
    assert (tmp_path / "t.png").stat().st_size > 0
    assert set(scored.bins()) == {"pt", "eta", "density", "origin"}
    json.dumps(scored.to_json())


def test_targets_by_radius_of_origin_are_those_of_the_raw_files(raw, tmp_path):
    dataset = hepdata.build_tracking(raw, tmp_path / "data", pairs="none")
    write_truth(dataset, "train", tmp_path / "truth.csv")
    radius = []
    for index in range(len(dataset["train"])):
        cloud = dataset["train"][index]
        particles = pd.read_csv(raw / f"event{cloud.event_id:09d}-particles.csv", index_col="particle_id")
        known = particles.loc[np.unique(cloud.particle_id[cloud.is_reconstructable])]
        radius.append(np.hypot(known.vx, known.vy)[np.hypot(known.px, known.py) > 0.9])
    radius = np.concatenate(radius)
    scored = hept.score_tracks(tmp_path / "truth.csv", dataset, "train")
    edges, rates = scored.bins()["origin"]
    np.testing.assert_array_equal(rates["efficiency"].n_all, np.histogram(radius, edges)[0])
    for primary, expected in ((True, radius < 2), (False, radius >= 2)):
        found = hept.score_tracks(tmp_path / "truth.csv", dataset, "train", primary=primary)
        assert found.score.summary()["n_targets"] == expected.sum()
        assert expected.any()


def test_true_tracks_have_the_helices_of_their_particles(raw, tmp_path):
    """Charge, curvature and the point nearest to the beam, in the same signs as the fit's."""
    dataset = hepdata.build_tracking(raw, tmp_path / "data", pairs="none")
    target, parts = find_target(dataset), []
    for index in range(len(dataset["train"])):
        columns = dataset["train"][index].columns
        label = np.unique(columns["particle_id"], return_inverse=True)[1] - 1
        match = match_labels(label, list_truth(columns, target))
        fits = fit_tracks(label, columns, HitError(0.03, 0.1))
        is_track = fits["n_hits"] >= 3
        parts.append(Residuals.compare({name: v[is_track] for name, v in fits.items()}, match))
    residuals = Residuals.join(parts)
    assert len(residuals.pt) > 30
    limits = {"qpt": 0.1, "eta": 0.02, "phi": 0.02, "d0": 0.5, "z0": 1.0}
    for name, limit in limits.items():
        assert np.median(np.abs(residuals.residual[name])) < limit, name
        # Merged clusters lie further from their particle than the error of a hit.
        assert 0.2 < resolution(residuals.pull[name]) < 5, name


def test_missing_events_and_unknown_hits_are_counted(raw, tracking_dataset, tmp_path):
    dataset = hepdata.build_tracking(raw, tmp_path / "data", pairs="none")
    write_truth(dataset, "train", tmp_path / "truth.csv")
    rows = pd.read_csv(tmp_path / "truth.csv")
    kept = rows[rows.event_id != rows.event_id.min()]
    other = pd.DataFrame({"event_id": [kept.event_id.min(), 999], "hit_id": [10**6, 1], "track_id": [1, 1]})
    pd.concat([kept, other]).to_csv(tmp_path / "some.csv", index=False)
    scored = hept.score_tracks(tmp_path / "some.csv", dataset, "train")
    assert (scored.n_without_tracks, scored.n_other_events, scored.n_unknown_hits) == (1, 1, 1)
    assert 0.5 < scored.score.summary()["efficiency_perfect"] < 1
    with pytest.raises(InputError, match=r"expected events of the split 'valid'.*remedy|such as event"):
        hept.score_tracks(tmp_path / "truth.csv", dataset, "valid")
    with pytest.raises(InputError, match=r"primary.*does not store what it needs"):
        hept.score_tracks(tmp_path / "truth.csv", tracking_dataset, "train", primary=True)


def test_raw_events_and_their_dataset_give_the_same_tracks(raw, run, tmp_path):
    options = {"method": "tree", "threads": 1, "device": "cpu"}
    found = hept.find_raw_tracks(run, raw, tmp_path / "raw.parquet", **options)
    assert set(found.seconds) == {"read", "features", "model", "reconstruction"}
    dataset = hepdata.open_dataset(json.loads((run / "run.json").read_text())["dataset"])
    hept.predict(run, dataset, tmp_path / "data.parquet", **options)
    by_hit = ["event_id", "hit_id"]
    ours = pd.read_parquet(tmp_path / "raw.parquet").sort_values(by_hit)
    theirs = pd.read_parquet(tmp_path / "data.parquet").sort_values(by_hit)
    np.testing.assert_array_equal(ours.track_id, theirs.track_id)
    assert found.n_hits == len(ours)
    fits = pd.read_parquet(found.fits).sort_values(["event_id", "track_id"], ignore_index=True)
    assert len(fits) == found.n_tracks
    others = pd.read_parquet(tmp_path / "data.fits.parquet")
    pd.testing.assert_frame_equal(fits, others.sort_values(["event_id", "track_id"], ignore_index=True))
    sizes = ours[ours.track_id >= 0].groupby(["event_id", "track_id"]).size()
    assert sizes.tolist() == fits.n_hits.tolist()


def test_a_submission_has_every_hit_once_in_a_track(raw, run, tmp_path):
    found = hept.find_raw_tracks(run, raw, tmp_path / "s.csv", max_events=2, threads=1, device="cpu")
    rows = pd.read_csv(tmp_path / "s.csv")
    assert list(rows) == ["event_id", "hit_id", "track_id"]
    assert not rows.duplicated(["event_id", "hit_id"]).any()
    assert (rows.track_id >= 0).all()
    assert (len(rows), rows.event_id.nunique()) == (found.n_hits, 2)
    with pytest.raises(InputError, match=r"ends in .parquet or .csv"):
        hept.find_raw_tracks(run, raw, tmp_path / "s.txt")
