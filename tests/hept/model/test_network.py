from dataclasses import replace
from math import pi

import pytest
import torch

from hepdata.errors import InputError
from hepdata.schema import ModelInput
from hept.model.build import build_network
from hept.model.network import Network, count_parameters
from hept.model.preparation import compress, learn_spread
from hept.paper.systems.catalog import CATALOG
from hept.settings.load import load_config


def inputs(*names):
    known = {"phi": {"period": 2 * pi}, "pid_class": {"n_classes": 8}}
    return tuple(ModelInput(name, **known.get(name, {})) for name in names)


def build(config, features, coords):
    return build_network(
        config.model, inputs(*features), inputs(*coords), is_embedding=config.task == "tracking"
    )


class Same(torch.nn.Module):
    def forward(self, features, coords, offsets):
        return features


def test_heavy_tails_are_compressed_and_columns_standardised():
    features = torch.cat([torch.randn(500, 2) * 5 + 3, torch.randn(500, 1).exp() * 100], 1)
    features = torch.cat([features, torch.full((500, 1), 7.0), torch.randint(0, 8, (500, 1)).float()], 1)
    plain = [replace(entry, standardise=True) for entry in inputs("a", "b", "pt", "constant")]
    plain[2] = replace(plain[2], compression="log")
    learned = learn_spread([*plain, *inputs("pid_class")], [features[:200], features[200:]])
    assert learned[4] == inputs("pid_class")[0]
    assert learned[0].shift == pytest.approx(float(features[:, 0].mean()))
    assert learned[0].spread == pytest.approx(float(features[:, 0].std(correction=0)))
    network = Network(Same(), learned, inputs("eta", "phi"))
    prepared = network(features, torch.zeros(500, 2), torch.tensor([0, 500]))
    torch.testing.assert_close(prepared[:, :3].mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(prepared[:, :3].var(0, correction=0), torch.ones(3), atol=1e-4, rtol=0)
    assert (prepared[:, 3] == 0).all()
    torch.testing.assert_close(prepared[:, 4], features[:, 4])
    assert float(compress(torch.tensor([[0.0, -1]]), torch.tensor([False, True]))[0, 1]) == pytest.approx(
        -0.6931472
    )


def test_without_preparation_features_pass_unchanged():
    features, names = torch.randn(10, 3), inputs("a", "b", "c")
    assert torch.equal(Network(Same(), names, names)(features, features, torch.tensor([0, 10])), features)


def test_inputs_are_no_weights_and_follow_the_network_to_its_precision():
    learned = (ModelInput("r", shift=3.0, spread=2.0),)
    network = Network(Same(), learned, learned).double()
    assert network.state_dict() == {}
    assert network(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([0, 2])).tolist() == [[-1.0], [-1.0]]
    assert network.features.shift.dtype == torch.float64


def test_more_than_one_class_or_a_class_as_coordinate_is_one_line():
    config = load_config("pileup-10k")
    with pytest.raises(InputError, match=r"features: found columns of classes: pid_class, pid_class; expec"):
        build(config, ["pid_class", "pid_class"], ["eta", "phi"])
    with pytest.raises(InputError, match=r"data.coords: found columns of classes: pid_class.*n_classes: 0"):
        build(config, ["eta"], ["eta", "pid_class"])


@pytest.mark.parametrize(("preset", "n_features"), [("tracking-6k", 15), ("pileup-10k", 8)])
@pytest.mark.parametrize("changes", [[], ["model.tied_qk=true"], ["model.ff_dim=192"]])
def test_the_plain_mlp_has_about_as_many_weights(preset, n_features, changes):
    names = [f"f{i}" for i in range(n_features - 1)] + ["pid_class" if "pileup" in preset else "layer"]
    sizes = [
        count_parameters(build(load_config(preset, [*changes, f"model.kind={kind}"]), names, ["eta", "phi"]))
        for kind in ("hept", "mlp")
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1)


def test_tied_queries_and_keys_share_their_weights():
    names = [
        {name for name, _ in network.named_parameters()}
        for network in (
            build(load_config("tracking-6k", changes), ["a"], ["eta", "phi"])
            for changes in (["model.tied_qk=true"], [])
        )
    ]
    assert names[1] - names[0] == {f"body.blocks.{i}.attention.w_k.weight" for i in range(4)}


def test_the_feed_forward_and_the_encoder_can_be_wider_than_the_points():
    network = build(load_config("tracking-6k", ["model.ff_dim=100"]), ["a"], ["eta", "phi"])
    shapes = {name: tuple(weight.shape) for name, weight in network.named_parameters() if weight.ndim == 2}
    assert shapes["body.encoder.0.weight"] == (100, 1)
    assert shapes["body.encoder.2.weight"] == (24, 100)
    assert all(shapes[f"body.blocks.{i}.ff.0.weight"] == (100, 24) for i in range(4))


@pytest.mark.parametrize(
    ("changes", "is_encoded"),
    [
        ([], False),
        (["model.encode_place=true"], True),
        (["model.kernel=dot"], True),
        (["model.kernel=dot", "model.encode_place=false"], False),
    ],
)
def test_coordinates_enter_the_features_where_asked_or_where_no_kernel_sees_them(changes, is_encoded):
    changes = [*changes, "model.n_layers=1", "model.quiet_start=true"]
    network = build(load_config("tracking-6k", changes), ["a"], ["eta", "phi"]).eval()
    features, coords = torch.randn(20, 1), torch.randn(20, 2)
    # Attention is zero, so that coordinates can only matter through the features.
    outputs = [network(features, each, torch.tensor([0, 20])) for each in (coords, coords + 1)]
    assert torch.equal(*outputs) != is_encoded


def test_the_plain_mlp_sees_each_point_alone():
    network = build(load_config("pileup-10k", ["model.kind=mlp"]), ["eta", "pid_class"], ["eta"]).eval()
    features = torch.stack([torch.linspace(-1, 1, 6), torch.arange(6).float()], 1)
    together = network(features, features[:, :1], torch.tensor([0, 6]))
    alone = torch.cat([network(f[None], f[None, :1], torch.tensor([0, 1])) for f in features])
    torch.testing.assert_close(together, alone)


TRANSFORMERS = [s.name for s in CATALOG if s.family in ("transformer", "kernel", "hept", "ablation")]


@pytest.mark.parametrize("kind", TRANSFORMERS)
@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_quiet_start_lets_no_point_see_another(kind, is_quiet):
    changes = [f"model.kind={kind}", f"model.quiet_start={str(is_quiet).lower()}", "model.n_layers=2"]
    network = build(load_config("tracking-6k", changes), ["a", "b"], ["eta", "phi"]).eval()
    features, coords = torch.randn(20, 2), 0.1 * torch.randn(20, 2)
    moved = torch.cat([features[:1] + 1, features[1:]])
    others = [network(rows, coords, torch.tensor([0, 20]))[1:] for rows in (features, moved)]
    assert torch.allclose(*others, rtol=0, atol=1e-6) == is_quiet


def test_attention_grows_from_a_quiet_start():
    network = build(load_config("tracking-demo", ["model.quiet_start=true"]), ["a", "b"], ["eta", "phi"])
    rows = (torch.randn(30, 2), torch.randn(30, 2), torch.tensor([0, 30]))
    network(*rows).square().sum().backward()
    grown = [p.grad for name, p in network.named_parameters() if "attention.out_linear.weight" in name]
    assert len(grown) > 1
    assert all(grad.norm() > 0 for grad in grown)


def test_the_kernel_begins_as_wide_as_said_in_the_plane_and_as_drawn_elsewhere():
    omegas = []
    for changes in (["model.start_width=0.05"], []):
        torch.manual_seed(0)
        network = build(load_config("tracking-6k", changes), ["a"], ["eta", "phi", "r"])
        omegas.append(torch.stack([block.attention.omega() for block in network.body.blocks]))
    # η, and φ as cosine and sine, share the ω of the plane; r has its own.
    assert torch.allclose(omegas[0][..., :3], torch.tensor(0.5 / 0.05**2))
    assert torch.equal(omegas[0][..., 3], omegas[1][..., 3])
    assert (omegas[1][..., :3] < 50).all()


@pytest.mark.parametrize("kind", ["mlp", "hept-dot", "gcn"])
def test_models_without_heptattention_ignore_start_width(kind):
    changes = [f"model.kind={kind}", "model.start_width=0.05"]
    build(load_config("tracking-6k", changes), ["a"], ["eta", "phi"])
