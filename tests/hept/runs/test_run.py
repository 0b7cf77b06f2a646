"""A run finds its dataset again, and has a readable representation."""

import shutil

import pytest

import hepdata
import hept
from hept.training.trainer import fit


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tracking_dataset):
    """A folder with a dataset and a run that was trained on it with relative paths."""
    from hept.settings.load import load_config

    folder = tmp_path_factory.mktemp("work") / "first"
    shutil.copytree(tracking_dataset, folder / "data" / "tracks")
    small = ["epochs=1", "model.n_layers=1", "model.block_size=16", "model.n_regions=4"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        hept.fit("data/tracks", "runs/a", preset="tracking-demo", settings=small, threads=1)
    assert load_config("tracking-demo", small) == hept.open_run(folder / "runs" / "a").config
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "first")


def test_it_is_found_from_any_folder(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = hept.open_run(trained / "runs" / "a").open_dataset()
    assert found.root.location == str(trained / "data" / "tracks")
    assert hept.evaluate(trained / "runs" / "a", threads=1)["n_clouds"] == len(found["test"])


def test_it_is_found_after_both_were_moved(folder, trained, tmp_path, monkeypatch):
    hidden = trained.with_name("hidden")
    trained.rename(hidden)
    try:
        monkeypatch.chdir(tmp_path)
        found = hept.open_run(folder / "runs" / "a").open_dataset()
    finally:
        hidden.rename(trained)
    assert found.root.location == str(folder / "data" / "tracks")


def test_another_dataset_in_its_place_is_not_taken(trained, make_dataset):
    data = trained / "data" / "tracks"
    kept = data.rename(data.with_name("kept"))
    try:
        shutil.copytree(make_dataset(splits={"train": 3, "valid": 1, "test": 1}), data)
        with pytest.raises(hepdata.InputError, match=r"another dataset at .*tracks.*give the dataset"):
            hept.open_run(trained / "runs" / "a").open_dataset()
    finally:
        shutil.rmtree(data)
        kept.rename(data)


def test_a_dataset_that_is_gone_is_asked_for(folder, trained):
    data = trained / "data"
    kept = data.rename(data.with_name("kept"))
    try:
        shutil.rmtree(folder / "data")
        with pytest.raises(hepdata.InputError, match=r"no dataset at .*tracks; .* give the dataset"):
            hept.evaluate(folder / "runs" / "a")
    finally:
        kept.rename(data)


def test_no_run_says_so(tmp_path):
    for ask in (hept.open_run, hept.evaluate, hept.tune_clustering, hept.write_report):
        with pytest.raises(hepdata.InputError, match="nope: found no such file or folder"):
            ask(tmp_path / "nope")


def test_weights_alone_ask_for_a_dataset(trained, tmp_path):
    shutil.copy(trained / "runs" / "a" / "best.safetensors", tmp_path)
    with pytest.raises(hepdata.InputError, match="only a run folder knows its own"):
        hept.evaluate(tmp_path / "best.safetensors")


def test_a_run_shows_how_it_went(trained):
    run = hept.open_run(trained / "runs" / "a")
    assert "1 epochs" in repr(run)
    assert "train_loss" in run._repr_html_()
    assert run.history()["epoch"].tolist() == [1]


def test_resume_takes_no_other_settings(trained):
    with pytest.raises(hepdata.InputError, match=r"`preset`, .* or `out` together with it"):
        hept.fit(resume=trained / "runs" / "a", settings={"epochs": 3})


def test_functions_take_what_is_at_hand(trained):
    """A model is given as string, path, run or loaded model; a dataset as string or opened dataset."""
    path = trained / "runs" / "a"
    dataset = hepdata.open_dataset(trained / "data" / "tracks")
    answers = [
        hept.evaluate(model, data, threads=1)
        for model in (str(path), path, hept.open_run(path), hept.load_model(path))
        for data in (dataset, dataset.root.location)
    ]
    assert all(answer == answers[0] for answer in answers)


def test_the_trainer_takes_an_opened_dataset(trained, tmp_path, small_config):
    opened = hepdata.open_dataset(trained / "data" / "tracks")
    assert fit(small_config("tracking-demo", "epochs=1"), opened, tmp_path / "b").epochs == 1
