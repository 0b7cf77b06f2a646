import pytest
import torch

from hept.checkpoint import build_network
from hept.config import load_config
from hept.network import Network, count_parameters


class Same(torch.nn.Module):
    def forward(self, features, coords, offsets):
        return features


def test_heavy_tails_are_compressed_and_columns_standardised():
    features = torch.cat([torch.randn(500, 2) * 5 + 3, torch.randn(500, 1).exp() * 100], 1)
    features = torch.cat([features, torch.full((500, 1), 7.0), torch.randint(0, 8, (500, 1)).float()], 1)
    network = Network(Same(), 5, signed_log=[2])
    network.standardise([features[:200], features[200:]], leave=[4])
    prepared = network(features, torch.zeros(500, 2), torch.tensor([0, 500]))
    torch.testing.assert_close(prepared[:, :3].mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(prepared[:, :3].var(0, correction=0), torch.ones(3), atol=1e-4, rtol=0)
    assert (prepared[:, 3] == 0).all()
    torch.testing.assert_close(prepared[:, 4], features[:, 4])
    assert float(network.compress(torch.tensor([[0.0, 0, -1, 0, 0]]))[0, 2]) == pytest.approx(-0.6931472)


def test_without_preparation_features_pass_unchanged():
    features = torch.randn(10, 3)
    assert torch.equal(Network(Same(), 3)(features, features, torch.tensor([0, 10])), features)


@pytest.mark.parametrize(("preset", "n_features"), [("tracking-6k", 15), ("pileup-10k", 8)])
def test_the_plain_mlp_has_about_as_many_weights(preset, n_features):
    names = [f"f{i}" for i in range(n_features - 1)] + ["pid_class" if "pileup" in preset else "layer"]
    sizes = [
        count_parameters(build_network(load_config(preset, [f"model.kind={kind}"]), names, ["eta", "phi"]))
        for kind in ("hept", "mlp")
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1)


def test_the_plain_mlp_sees_each_point_alone():
    network = build_network(
        load_config("pileup-10k", ["model.kind=mlp"]), ["eta", "pid_class"], ["eta"]
    ).eval()
    features = torch.stack([torch.linspace(-1, 1, 6), torch.arange(6).float()], 1)
    together = network(features, features[:, :1], torch.tensor([0, 6]))
    alone = torch.cat([network(f[None], f[None, :1], torch.tensor([0, 1])) for f in features])
    torch.testing.assert_close(together, alone)
