import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hept.attention.clouds import Clouds
from hept.attention.distances import (
    choose_step,
    is_negligible,
    logit_parts,
    reach_of_clouds,
    select_columns,
)


def clouds_of(*sizes):
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    return Clouds.from_offsets(offsets, int(offsets[-1]))


def draw(n, reach, seed=0):
    """Queries and keys (n, 4), and places (3, n); those of points i and i + n/2 lie close together."""
    generator = torch.Generator().manual_seed(seed)
    place = reach * (2 * torch.rand(3, n // 2, generator=generator) - 1)
    near = (place + 0.3 * torch.randn(3, n // 2, generator=generator)).clamp(-reach, reach)
    query, key = torch.randn(2, n, 4, generator=generator)
    return query, key, torch.cat([place, near], 1)


def lay_grid(place):
    clouds = clouds_of(place.shape[1])
    reach = reach_of_clouds(place.mT, clouds).amax(-1)
    assert reach.max() == place.abs().max()
    return choose_step(reach[None], 3, clouds)[0]


def logits(query, key, place, step, n_sharp=3):
    parts = logit_parts(query, key, place, step, n_sharp).mT
    selection = select_columns(place.shape[0], n_sharp=n_sharp if step is not None else 0, like=parts)
    q = torch.cat([parts @ selection.of_query, query], -1)
    k = torch.cat([parts @ selection.of_key, key], -1)
    return q @ k.mT


def exact(query, key, place):
    q, k = (torch.cat([rows, place.mT], -1).double() for rows in (query, key))
    return -0.5 * torch.cdist(q, k, compute_mode="donot_use_mm_for_euclid_dist") ** 2


def error_of_partners(query, key, place, step):
    error = logits(query, key, place, step).double() - exact(query, key, place)
    n = place.shape[1] // 2
    return error.diagonal(n).abs().max().item()


@given(reach=st.sampled_from([1.0, 50.0, 1e3, 2e3]), seed=st.integers(0, 20))
def test_partners_keep_their_distance_in_float32(reach, seed):
    query, key, place = draw(400, reach, seed)
    assert error_of_partners(query, key, place, lay_grid(place)) < 2e-3


@given(n_sharp=st.integers(1, 2), seed=st.integers(0, 20))
def test_places_near_zero_need_no_grid(n_sharp, seed):
    query, key, place = draw(400, 2e3, seed)
    place[n_sharp:] *= 0.015
    step = lay_grid(place)
    error = logits(query, key, place, step, n_sharp).double() - exact(query, key, place)
    assert is_negligible(place[n_sharp:].abs().max().item(), 3)
    assert not is_negligible(place[:n_sharp].abs().amax(1).min().item(), 3)
    assert error.diagonal(200).abs().max() < 3e-3


def test_the_plain_product_does_not():
    assert error_of_partners(*draw(400, 2e3), None) > 0.05


def test_float64_needs_no_grid():
    query, key, place = (rows.double() for rows in draw(100, 2e3))
    assert torch.allclose(logits(query, key, place, None), exact(query, key, place), atol=1e-7)


def test_what_lies_on_the_grid_is_exact():
    place = torch.randint(-1000, 1001, (3, 64), generator=torch.Generator().manual_seed(0)).float()
    query = key = torch.zeros(64, 4)
    step = choose_step(torch.tensor([[1000.0]]), 3, clouds_of(64))[0]
    assert step.item() == 1.0
    assert torch.equal(logits(query, key, place, step).double(), exact(query, key, place).round(decimals=1))


def test_columns_of_keys_end_in_what_gradients_need():
    query, key, place = draw(40, 50.0)
    parts = logit_parts(query, key, place, lay_grid(place)).mT
    selection = select_columns(3, n_sharp=3, like=parts)
    of_key = parts @ selection.of_key
    assert torch.equal(of_key[:, -4:], torch.cat([torch.ones(40, 1), place.mT], 1))
    assert torch.equal(parts @ selection.of_place, torch.cat([place.mT, torch.ones(40, 1)], 1))


def test_each_cloud_has_its_own_grid():
    clouds = clouds_of(3, 0, 2)
    place = torch.tensor([[1.0, -8.0], [2.0, 0.0], [0.0, 0.0], [-100.0, 3.0], [5.0, 5.0]])
    reach = reach_of_clouds(place, clouds)
    assert reach.tolist() == [[2.0, 8.0], [0.0, 0.0], [100.0, 5.0]]
    step = choose_step(reach.amax(-1)[None], 2, clouds)[0]
    assert torch.equal(step, torch.stack([step[0]] * 3 + [step[3]] * 2))
    # Powers of two: 8/2048 and 100/2048, rounded up.
    assert (step[0].item(), step[3].item()) == (2.0**-8, 2.0**-4)


@pytest.mark.parametrize("n_sharp", [0, 1, 2, 3])
def test_gradients_are_those_of_the_distance(n_sharp):
    inputs = query, key, place = [rows.double().requires_grad_() for rows in draw(30, 50.0)]
    step = lay_grid(place.detach()) if n_sharp else None
    weight = torch.rand(30, 30, dtype=torch.float64)
    ours = torch.autograd.grad((weight * logits(query, key, place, step, n_sharp)).sum(), inputs)
    q, k = (torch.cat([rows, place.mT], -1) for rows in (query, key))
    squared = (q.unsqueeze(1) - k.unsqueeze(0)).square().sum(-1)
    theirs = torch.autograd.grad((weight * -0.5 * squared).sum(), inputs)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-8)
