"""An attention of the user's own: `module:Class`, or a name that an installed package declares."""

import re

import pytest
import torch

from hepdata.errors import InputError
from hept.model.frame import Frame
from hept.paper.systems.registry import build_model

MODULE = """
import torch

class MeanOfCloud(torch.nn.Module):
    def __init__(self, hidden_dim, coords_dim):
        super().__init__()
        self.value = torch.nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, coords, clouds):
        total = torch.zeros(clouds.n_clouds, x.shape[1]).index_add(0, clouds.index, self.value(x))
        return (total / clouds.sizes[:, None])[clouds.index]

def no_class(hidden_dim, coords_dim):
    raise AssertionError("called")
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package on Python's path with an attention, which an entry point names `mean`."""
    (tmp_path / "their_attention.py").write_text(MODULE)
    information = tmp_path / "their_attention-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: their-attention\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[hept.attentions]\nmean = their_attention:MeanOfCloud\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["their_attention:MeanOfCloud", "mean"])
def test_points_see_the_mean_of_their_own_cloud_only(package, name):
    torch.manual_seed(0)
    model = build_model(name, Frame(3, 2, 4, n_layers=1, dropout=0)).eval()
    features, coords = torch.randn(7, 3), torch.randn(7, 2)
    both = model(features, coords, torch.tensor([0, 3, 7]))
    alone = model(features[3:], coords[3:], torch.tensor([0, 4]))
    assert both.shape == (7, 4)
    torch.testing.assert_close(both[3:], alone)
    other = features.clone()
    other[3] += 1
    assert not torch.allclose(model(other, coords, torch.tensor([0, 3, 7]))[4:], both[4:])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("no_such_module_of_theirs:Attention", "no such class"),
        ("their_attention:Missing", "no such class"),
        (
            "their_attention:no_class",
            "found function no_class; expected a class derived from torch.nn.Module",
        ),
        ("os:system", "expected a class derived from torch.nn.Module"),
        (":", "no such class"),
        ("hpet", "did you mean 'hept'"),
    ],
)
def test_what_is_no_attention_is_refused_without_a_call(package, name, found):
    with pytest.raises(InputError, match=re.escape(found)):
        build_model(name, Frame(3, 2, 4))


def test_the_current_folder_is_not_searched(package, monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("downloaded")
    (folder / "planted.py").write_text("raise AssertionError('imported')")
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match="no such class"):
        build_model("planted:Attention", Frame(3, 2, 4))
