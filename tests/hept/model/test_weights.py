import errno
import os
from math import pi

import pytest
import torch

from hepdata.errors import InputError, JobError
from hepdata.schema import ModelInput
from hept.model.build import build_network, periods_of
from hept.model.weights import ModelCard, load_model, save_weights
from hept.settings.load import load_config
from hept.training.saved_state import read_state, write_state

FEATURES = (
    ModelInput("eta", shift=0.5, spread=2.0, standardise=True),
    ModelInput("phi", 1 / pi, unit="rad", period=2 * pi),
    ModelInput("pt", unit="GeV", compression="log"),
)
COORDS = (ModelInput("eta"), ModelInput("phi", unit="rad", period=2 * pi))


@pytest.fixture
def saved(tmp_path):
    config = load_config("tracking-demo", ["model.n_layers=1"])
    network = build_network(config.model, FEATURES, COORDS, is_embedding=True).eval()
    card = ModelCard(config.model_dump(), "pairs", FEATURES, COORDS, "abc", 3, {"ap@0.9": 0.5})
    path = tmp_path / "best.safetensors"
    save_weights(path, network.state_dict(), card)
    return network, path


def test_a_weights_file_stands_alone(saved):
    network, path = saved
    for source in (path, path.parent):
        loaded = load_model(source)
        assert (loaded.task, loaded.objective) == ("tracking", "pairs")
        assert (loaded.features, loaded.coords) == (FEATURES, COORDS)
        features, coords, offsets = torch.randn(50, 3), torch.randn(50, 2), torch.tensor([0, 50])
        torch.testing.assert_close(
            loaded.network(features, coords, offsets), network(features, coords, offsets)
        )


@pytest.mark.parametrize("damage", [lambda b: b[:100], lambda b: b"", lambda b: b"x" * 500])
def test_a_damaged_checkpoint_is_one_line(saved, damage):
    _, path = saved
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"best.safetensors: found a damaged checkpoint") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


def test_weights_without_a_description_are_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="no description of the model in its header"):
        load_model(tmp_path / "other.safetensors")


def test_nothing_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match="found no weights; expected a run folder"):
        load_model(tmp_path / "nothing")


def test_a_damaged_resume_state_is_one_line(tmp_path):
    write_state(tmp_path / "resume.pt", {"step": 3})
    assert read_state(tmp_path / "resume.pt") == {"step": 3}
    (tmp_path / "resume.pt").write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="found a damaged state"):
        read_state(tmp_path / "resume.pt")


def test_a_full_disk_leaves_the_old_checkpoint(saved, monkeypatch):
    network, path = saved
    before = path.read_bytes()

    def refuse(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(JobError, match="found no space left on the disk"):
        save_weights(path, network.state_dict(), ModelCard({}, "pairs", (), (), "", 0, {}))
    assert path.read_bytes() == before


def test_azimuths_and_their_periods():
    from hepdata.schema import PILEUP, TRACKING

    # The tracking coordinates contain φ twice: unscaled, and divided by π.
    assert periods_of(TRACKING.coordinates) == pytest.approx({1: 2 * pi, 3: 2})
    assert periods_of(PILEUP.coordinates[:2]) == pytest.approx({1: 2 * pi})
    assert periods_of([ModelInput("phi", -0.5, period=2 * pi, spread=2.0)]) == pytest.approx({0: pi / 2})


def test_weights_of_a_newer_version_are_refused_with_the_remedy(saved):
    from dataclasses import replace

    network, path = saved
    card = ModelCard({}, "pairs", FEATURES, COORDS, "", 0, {})
    save_weights(path, network.state_dict(), replace(card, version=99))
    with pytest.raises(InputError, match=r"found weights of version 99; expected at most 3.*upgrade hept"):
        load_model(path)


def test_a_turned_cloud_is_the_same_cloud():
    config = load_config("pileup-demo", ["model.n_regions=1", "model.block_size=64"])
    features = (ModelInput("eta"), ModelInput("pid_class", n_classes=8))
    network = build_network(config.model, features, COORDS, is_embedding=False).eval()
    features = torch.stack([torch.randn(40), torch.zeros(40)], 1)
    coords = torch.stack([torch.randn(40), torch.rand(40) * 6.28 - 3.14], 1)
    turned = coords.clone()
    turned[:, 1] = torch.remainder(turned[:, 1] + 2.0 + torch.pi, 2 * torch.pi) - torch.pi
    offsets = torch.tensor([0, 40])
    torch.testing.assert_close(
        network(features, turned, offsets), network(features, coords, offsets), atol=1e-4, rtol=1e-3
    )
