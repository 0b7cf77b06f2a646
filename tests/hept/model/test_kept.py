import pytest
import torch
from safetensors.torch import save_file

from hepdata.errors import InputError
from hept.model import kept
from hept.model.kept import find_kept
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
