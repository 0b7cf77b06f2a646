import os

import pytest
import torch
from safetensors.torch import save_file

import hept
from hepdata.errors import InputError
from hept.evaluation.tuning import load_clustering
from hept.model import kept
from hept.model.kept import find_kept
from hept.model.weights import load_model
from hept.runs.folder import find_weights


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "weights")
    (tmp_path / "weights").mkdir()
    save_file({"x": torch.zeros(1)}, tmp_path / "weights" / "some-model.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_weights_are_found_by_name(folder):
    assert find_weights("some-model") == folder / "weights" / "some-model.safetensors"


def test_a_folder_of_the_same_name_comes_first(folder):
    (folder / "some-model").mkdir()
    assert find_kept("some-model") is None


def test_an_unknown_name_is_one_line_with_the_known_ones(folder):
    with pytest.raises(InputError, match=r"other: found no weights; expected .* or one of some-model"):
        find_weights("other")


@pytest.mark.parametrize("name", kept.list_kept())
def test_the_weights_of_the_package_are_small_load_and_have_a_card(name):
    path = find_weights(name)
    assert path.stat().st_size < 2_000_000
    model = load_model(name)
    assert (model.task, model.is_embedding) == ("tracking", True)
    assert name in path.with_suffix(".md").read_text(encoding="utf-8")
    assert load_clustering(path) is not None


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_a_pipe_is_no_weights_file(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="found a pipe, a device or a folder"):
        find_weights(tmp_path / name)


def test_the_choice_that_comes_with_weights_is_not_replaced(tracking_dataset):
    with pytest.raises(InputError, match="whose choice comes with the package"):
        hept.tune_clustering(kept.list_kept()[0], tracking_dataset)
