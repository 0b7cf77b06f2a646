"""The whole model: shapes, class embedding, interchangeable attention, errors."""

import math

import pytest
import torch
from torch import nn

from hept import HEPT


def make(n_features=5, coords_dim=3, out_dim=12, **settings):
    torch.manual_seed(0)
    settings = {"n_layers": 2, "hidden_dim": 8, "n_heads": 2, "block_size": 8, "n_regions": 6, **settings}
    return HEPT(n_features, coords_dim, out_dim, **settings)


def draw(n, n_features=5, coords_dim=3):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, n_features, generator=generator), torch.randn(n, coords_dim, generator=generator)


@pytest.mark.parametrize("sizes", [[1], [3], [0, 1, 0], [30, 1, 9], [200]])
def test_batches_of_any_sizes_train(sizes):
    model = make()
    features, coords = draw(sum(sizes))
    out = model(features, coords, torch.tensor([0, *sizes]).cumsum(0))
    assert out.shape == (sum(sizes), 12)
    out.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_batch_of_nothing_has_no_outputs():
    features, coords = draw(0)
    assert make()(features, coords, torch.tensor([0, 0])).shape == (0, 12)


def test_a_batch_of_nothing_has_gradients_of_zero():
    # With several processes, torch waits for the gradient of every parameter.
    model = make()
    model(*draw(0), torch.tensor([0, 0])).sum().backward()
    assert all((each.grad == 0).all() for each in model.parameters())


def test_float32_clouds_agree_alone_and_in_a_batch():
    model = make(periods={1: 2 * math.pi}).eval()
    features, coords = draw(60)
    together = model(features, coords, torch.tensor([0, 1, 20, 60]))
    for begin, end in ((0, 1), (1, 20), (20, 60)):
        alone = model(features[begin:end], coords[begin:end], torch.tensor([0, end - begin]))
        assert torch.allclose(together[begin:end], alone, atol=1e-5)


def test_the_class_is_embedded_and_not_read_as_a_number():
    model = make(head="classification", out_dim=1, n_classes=4, class_feature=2).eval()
    features, coords = draw(20)
    features[:, 2] = torch.arange(20) % 4
    with torch.no_grad():
        before = model(features, coords, torch.tensor([0, 20]))
        table = model.class_embedding.weight
        table.copy_(table[[1, 0, 3, 2]])
        features[:, 2] = torch.tensor([1.0, 0.0, 3.0, 2.0])[features[:, 2].long()]
        assert before.shape == (20, 1)
        assert torch.allclose(model(features, coords, torch.tensor([0, 20])), before, atol=1e-6)


def test_the_standard_kernel_reads_coordinates_by_an_encoding():
    model = make(kernel="dot", and_coords=()).eval()
    features, coords = draw(20)
    offsets = torch.tensor([0, 20])
    assert not torch.allclose(model(features, coords, offsets), model(features, coords + 1, offsets))


class Mean(nn.Module):
    """The simplest attention: every point gets the mean of its cloud."""

    def forward(self, x, coords, clouds):
        sums = x.new_zeros(clouds.n_clouds, x.shape[1]).index_add(0, clouds.index, x)
        return (sums / clouds.sizes.clamp(min=1)[:, None])[clouds.index]


def test_another_attention_can_stand_in_the_block():
    model = make(attention=lambda hidden_dim, coords_dim: Mean())
    features, coords = draw(10)
    assert model(features, coords, torch.tensor([0, 4, 10])).shape == (10, 12)
    assert not any("tables" in name for name, _ in model.named_buffers())


@pytest.mark.parametrize(
    ("features", "coords", "message"),
    [
        ((10, 4), (10, 3), r"features: got shape \(10, 4\), need \(n_points, 5\)"),
        ((10, 5), (10, 2), r"coords: got shape \(10, 2\), need \(n_points, 3\)"),
        ((10, 5), (9, 3), r"coords: got 9 rows, need as many as features: 10"),
    ],
)
def test_inputs_of_other_shapes_are_refused(features, coords, message):
    with pytest.raises(ValueError, match=message):
        make()(torch.zeros(features), torch.zeros(coords), torch.tensor([0, 10]))


def test_an_unknown_head_is_refused():
    with pytest.raises(ValueError, match="head: got 'regression', need 'embedding' or 'classification'"):
        make(head="regression")
