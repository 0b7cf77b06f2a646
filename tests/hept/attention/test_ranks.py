"""Ranks, buckets and tuple sorting against sorting in Python."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hept import Clouds
from hept.attention import ranks
from hept.attention.definition import count_before, draw_buckets, find_bucket
from hept.attention.ranks import (
    joint_rank_in_cloud,
    rank_in_cloud,
    sort_by,
    sort_rows,
)

VALUES = st.lists(
    st.tuples(st.integers(0, 4), st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 1.5, -1.5])),
    min_size=1,
    max_size=40,
)


# Codes that fit into 63 bits together with hash and position; only with the hash; not even with the hash.
@given(rows=VALUES, is_double=st.booleans(), n_codes=st.sampled_from([5, 2**30, 2**40]))
@settings(max_examples=100)
def test_sorting_by_tuples_is_that_of_python(rows, is_double, n_codes):
    code = torch.tensor([row[0] for row in rows])
    value = torch.tensor([row[1] for row in rows], dtype=torch.float64 if is_double else torch.float32)
    order = sort_by(code, value, n_codes=n_codes).tolist()
    assert [(code[i].item(), value[i].item() + 0.0) for i in order] == sorted(
        (c.item(), v.item() + 0.0) for c, v in zip(code, value, strict=True)
    )


def test_sorting_by_tuples_keeps_the_order_of_equals():
    code, value = torch.zeros(50, dtype=torch.int64), torch.ones(50)
    for kind in (value, value.double()):
        assert sort_by(code, kind, n_codes=1).tolist() == list(range(50))


@pytest.mark.parametrize("worth", [1, 10**9])
def test_rows_are_sorted_in_place_each_by_itself(monkeypatch, worth):
    monkeypatch.setattr(ranks, "WORTH_A_THREAD", worth)
    key = torch.randint(-(2**62), 2**62, (3, 2, 40), generator=torch.Generator().manual_seed(0))
    expected = key.sort().values
    sort_rows(key)
    assert torch.equal(key, expected)


def test_codes_may_lie_in_memory_in_any_way():
    generator = torch.Generator().manual_seed(0)
    code, value = (
        torch.randint(0, 9, (3, 4, 50), generator=generator),
        torch.randn(3, 4, 50, generator=generator),
    )
    expected = sort_by(code, value, n_codes=9)
    turned = sort_by(code.movedim(0, 1).contiguous().movedim(0, 1), value.mT.contiguous().mT, n_codes=9)
    assert torch.equal(turned, expected)
    assert sort_by(code[..., :0], value[..., :0], n_codes=9).shape == (3, 4, 0)


def test_a_hash_in_a_far_region_keeps_its_digits():
    # Packed into one float32, values this close in region 10⁶ would tie.
    value = torch.arange(1000, dtype=torch.float32).flip(0) * 1e-6
    order = sort_by(torch.full((1000,), 10**6), value, n_codes=10**6 + 1)
    assert order.tolist() == list(range(999, -1, -1))


def test_ranks_begin_anew_in_each_cloud():
    clouds = Clouds.from_offsets(torch.tensor([0, 3, 3, 7]), 7)
    values = torch.tensor([5.0, -1.0, 2.0, 9.0, 7.0, 8.0, 6.0])
    assert rank_in_cloud(values, clouds).tolist() == [2, 0, 1, 3, 1, 2, 0]


def test_queries_and_keys_are_ranked_in_one_sequence():
    clouds = Clouds.from_offsets(torch.tensor([0, 2, 3]), 3)
    first, second = torch.tensor([1.0, 4.0, 0.5]), torch.tensor([3.0, 2.0, 0.1])
    a, b = joint_rank_in_cloud(first, second, clouds)
    assert a.tolist() == [0, 3, 1]
    assert b.tolist() == [2, 1, 0]


def test_points_before_a_cut_are_counted_by_cloud():
    clouds = Clouds.from_offsets(torch.tensor([0, 4, 6]), 6)
    turn = torch.tensor([0.1, 0.4, 0.6, 0.9, 0.7, 0.2])
    n_before = count_before(turn, torch.tensor([[0.0, 0.5]]), clouds)
    assert n_before.tolist() == [[[0, 0], [2, 1]]]


@given(n=st.integers(1, 500), buckets=st.floats(1, 40))
@settings(max_examples=60)
def test_buckets_are_equal_and_not_more_than_asked(n, buckets):
    clouds = Clouds.from_offsets(torch.tensor([0, n]), n)
    bucket = find_bucket(torch.arange(n), clouds.sizes, torch.tensor([[buckets]]), clouds)[0, 0]
    assert bucket.max() <= math.floor(buckets)
    counts = bucket.bincount()
    assert (counts[:-1] == counts[0]).all()
    assert counts[-1] <= counts[0]


@pytest.mark.parametrize("buckets", [1.0, 2.7, 7.3, 53.1, 999.9])
def test_buckets_are_those_of_whole_numbers(buckets):
    n = 100_003
    clouds = Clouds.from_offsets(torch.tensor([0, n]), n)
    rank = torch.arange(n)
    bucket = find_bucket(rank, clouds.sizes, torch.tensor([[buckets]]), clouds)[0, 0]
    assert torch.equal(bucket, rank // math.ceil(n / buckets))


@pytest.mark.parametrize("n_codes", [1, 2, 3])
def test_bucket_numbers_multiply_to_the_regions_and_differ(n_codes):
    torch.manual_seed(0)
    buckets = draw_buckets(150, n_codes, n_tables=3, n_heads=8)
    assert torch.allclose(buckets.prod(1), torch.tensor(150.0))
    assert (buckets >= 1).all()
    if n_codes > 1:
        assert len(buckets.unique()) == buckets.numel()
