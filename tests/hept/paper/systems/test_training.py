"""Every system through the trainer, the run folder and back."""

import pytest
import torch

from hepdata.errors import InputError
from hept.model.weights import load_model
from hept.paper.systems.catalog import NAMES
from hept.training.trainer import fit


@pytest.mark.parametrize("name", NAMES)
def test_a_system_is_trained_saved_and_loaded(name, pileup_dataset, small_config, tmp_path):
    config = small_config("pileup-demo", f"model.kind={name}", "model.n_neighbors=8", "epochs=1")
    result = fit(config, pileup_dataset, tmp_path / "run")
    assert result.stopped == "finished"
    network = load_model(result.run).network
    features = torch.zeros(5, 8)
    again = load_model(result.run).network
    inputs = features, torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 5])
    with torch.no_grad():
        assert torch.equal(network(*inputs), again(*inputs))


def test_an_unknown_system_is_refused_before_anything_starts(small_config):
    with pytest.raises(InputError, match="did you mean 'gravnet'"):
        small_config("tracking-demo", "model.kind=gravnett")
