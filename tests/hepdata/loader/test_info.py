"""The columns of the paper's table of datasets, hand-counted."""

import pytest

import hepdata


def test_tracking_table(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    dataset = hepdata.open_dataset(tmp_path / "a")
    splits = dataset.info().as_dict()["splits"]
    clouds = list(dataset["train"])
    assert splits["point clouds"] == {"train": 5, "valid": 2, "test": 1, "all": 8}
    assert splits["features"]["train"] == 15
    assert splits["dimensions"]["train"] == 2
    assert splits["points per cloud"]["train"] == pytest.approx((10 + 13 + 16 + 19 + 22) / 5)
    assert splits["fewest points"]["all"] == 10
    n_pairs = sum(cloud.positives.n_pairs + cloud.negatives.n_pairs for cloud in clouds)
    assert splits["labelled pairs per cloud"]["train"] == pytest.approx(n_pairs / 5)
    assert splits["class ratio (pos./neg.)"]["train"] is None
    n_noise = sum(int((cloud.particle_id == 0).sum()) for cloud in clouds)
    assert splits["noise fraction"]["train"] == pytest.approx(n_noise / 80)
    n_particles = sum(len(set(cloud.particle_id.tolist()) - {0}) for cloud in clouds)
    assert splits["particles per cloud"]["train"] == pytest.approx(n_particles / 5)


def test_pileup_table(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", "pileup")
    dataset = hepdata.open_dataset(tmp_path / "a")
    splits = dataset.info().as_dict()["splits"]
    clouds = list(dataset["train"])
    n_leading = sum(int(cloud.is_leading.sum()) for cloud in clouds)
    assert splits["features"]["train"] == 8
    assert splits["labelled pairs per cloud"]["train"] is None
    assert splits["class ratio (pos./neg.)"]["train"] == pytest.approx(n_leading / (80 - n_leading))
    n_scored = sum(int(cloud.is_scored.sum()) for cloud in clouds)
    n_both = sum(int((cloud.is_scored & cloud.is_leading).sum()) for cloud in clouds)
    assert splits["class ratio of scored"]["train"] == pytest.approx(n_both / (n_scored - n_both))


def test_shows_itself_in_terminal_and_notebook(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    info = hepdata.open_dataset(tmp_path / "a").info()
    assert repr(info) == str(info)
    assert "points per cloud" in str(info)
    assert "<table>" in info._repr_html_()
    assert max(len(line) for line in str(info).splitlines()) < 140


def test_empty_splits_have_no_averages(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", rows={"train": [1], "valid": []})
    splits = hepdata.open_dataset(tmp_path / "a").info().as_dict()["splits"]
    assert splits["points per cloud"]["valid"] is None
    assert splits["most points"]["valid"] is None
