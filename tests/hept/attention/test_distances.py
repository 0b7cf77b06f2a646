import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hept.attention.clouds import Clouds
from hept.attention.distances import choose_step, key_columns, query_columns, reach_of_clouds


def clouds_of(*sizes):
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    return Clouds.from_offsets(offsets, int(offsets[-1]))


def draw(n, reach, seed=0):
    """Queries and keys of 4 mild and 3 sharp columns; partners lie close together, anywhere in the reach."""
    generator = torch.Generator().manual_seed(seed)
    place = reach * (2 * torch.rand(n, 3, generator=generator) - 1)
    mild = torch.randn(2, n, 4, generator=generator)
    near = place + 0.3 * torch.randn(n, 3, generator=generator)
    return torch.cat([mild[0], place], 1)[None], torch.cat([mild[1], near], 1)[None]


def lay_grid(query, key, clouds):
    sharp = torch.cat([query[0, :, 4:], key[0, :, 4:]])
    reach = torch.maximum(
        reach_of_clouds(query[0, :, 4:], clouds), reach_of_clouds(key[0, :, 4:], clouds)
    ).amax(-1)
    assert reach.max() == sharp.abs().max()
    return choose_step(reach[None], 3, clouds)


def logits(query, key, sharp):
    return torch.cat(query_columns(query, sharp), -1) @ torch.cat(key_columns(key, sharp), -1).mT


def exact(query, key):
    return -0.5 * torch.cdist(query.double(), key.double(), compute_mode="donot_use_mm_for_euclid_dist") ** 2


@given(reach=st.sampled_from([1.0, 50.0, 1e3, 2e3]), seed=st.integers(0, 20))
def test_partners_keep_their_distance_in_float32(reach, seed):
    query, key = draw(200, reach, seed)
    sharp = lay_grid(query, key, clouds_of(200))
    error = (logits(query, key, sharp).double() - exact(query, key)).diagonal(dim1=1, dim2=2).abs().max()
    assert error < 2e-3


def test_the_plain_product_does_not():
    query, key = draw(200, 2e3)
    error = (logits(query, key, None).double() - exact(query, key)).diagonal(dim1=1, dim2=2).abs().max()
    assert error > 0.05


def test_float64_needs_no_grid():
    query, key = (rows.double() for rows in draw(100, 2e3))
    assert torch.allclose(logits(query, key, None), exact(query, key), atol=1e-7)


def test_what_lies_on_the_grid_is_exact():
    clouds = clouds_of(64)
    place = torch.randint(-1000, 1001, (1, 64, 3), generator=torch.Generator().manual_seed(0)).float()
    query = key = torch.cat([torch.zeros(1, 64, 4), place], -1)
    sharp = choose_step(torch.tensor([[1000.0]]), 3, clouds)
    assert sharp.step.item() == 1.0
    assert torch.equal(logits(query, key, sharp).double(), exact(query, key).round(decimals=1))


def test_each_cloud_has_its_own_grid():
    clouds = clouds_of(3, 0, 2)
    place = torch.tensor([[1.0, -8.0], [2.0, 0.0], [0.0, 0.0], [-100.0, 3.0], [5.0, 5.0]])
    reach = reach_of_clouds(place, clouds)
    assert reach.tolist() == [[2.0, 8.0], [0.0, 0.0], [100.0, 5.0]]
    step = choose_step(reach.amax(-1)[None], 2, clouds).step[0]
    assert torch.equal(step, torch.stack([step[0]] * 3 + [step[3]] * 2))
    # Powers of two: 8/2048 and 100/2048, rounded up.
    assert (step[0].item(), step[3].item()) == (2.0**-8, 2.0**-4)


@pytest.mark.parametrize("with_grid", [True, False])
def test_gradients_are_those_of_the_distance(with_grid):
    query, key = (rows.double().requires_grad_() for rows in draw(30, 50.0))
    sharp = lay_grid(query.detach(), key.detach(), clouds_of(30)) if with_grid else None
    weight = torch.rand(1, 30, 30, dtype=torch.float64)
    ours = torch.autograd.grad((weight * logits(query, key, sharp)).sum(), (query, key))
    difference = query.unsqueeze(2) - key.unsqueeze(1)
    theirs = torch.autograd.grad((weight * -0.5 * difference.square().sum(-1)).sum(), (query, key))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-8)
