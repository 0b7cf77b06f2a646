import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hept.metrics import average_precision_at_k
from hept.metrics import retrieval as module


def literal(x, particle_id, is_query):
    """Every query against every other point; ties count by their mean."""
    precisions = []
    for u in is_query.nonzero().squeeze(1).tolist():
        k = int((particle_id == particle_id[u]).sum()) - 1
        if particle_id[u] == 0 or k == 0:
            continue
        others = [v for v in range(len(x)) if v != u]
        distance = (x[others].double() - x[u].double()).square().sum(1)
        partner = particle_id[others] == particle_id[u]
        kth = distance.sort().values[k - 1]
        closer, tied = distance < kth, distance == kth
        share = (tied & partner).sum() / tied.sum()
        precisions.append(float(((closer & partner).sum() + (k - closer.sum()) * share) / k))
    return np.mean(precisions)


def test_hand_counted():
    # On a line: particle 1 at 0, 1, 10; particle 2 at 2, 11; noise at 3.
    x = torch.tensor([[0.0], [1.0], [10.0], [2.0], [11.0], [3.0]])
    particle_id = torch.tensor([1, 1, 1, 2, 2, 0])
    everything = torch.ones(6, dtype=torch.bool)
    # k = 2 for particle 1: hit 0 finds {1, 2'} → 1/2; hit 1 finds {0, 2'} → 1/2; hit 10 finds {11', noise}
    # → 0. k = 1 for particle 2: hit 2 ties between 1 and noise → 0; hit 11 finds 10 → 0. Noise is not a
    # query.
    result = average_precision_at_k(x, particle_id, everything)
    assert result.n_queries == 5
    assert result.ap == pytest.approx((0.5 + 0.5 + 0 + 0 + 0) / 5)
    assert result.recall == 1.0


def test_only_the_mask_asks_but_all_are_retrieved():
    x = torch.tensor([[0.0], [1.0], [0.5], [9.0]])
    particle_id = torch.tensor([1, 1, 2, 2])
    result = average_precision_at_k(x, particle_id, torch.tensor([True, False, False, False]))
    assert (result.n_queries, result.ap) == (1, 0.0)


def test_a_point_is_not_its_own_neighbour_among_duplicates():
    # Two particles of two hits, all at the same point: each query has three tied neighbours, of which one is
    # right.
    result = average_precision_at_k(
        torch.zeros(4, 2), torch.tensor([1, 1, 2, 2]), torch.ones(4, dtype=torch.bool)
    )
    assert result.ap == pytest.approx(1 / 3)


def test_collapsed_embeddings_give_the_odds_of_guessing():
    particle_id = torch.arange(3000) // 5 + 1
    result = average_precision_at_k(torch.ones(3000, 3), particle_id, torch.arange(3000) < 50)
    assert result.ap == pytest.approx(4 / 2999)


def test_more_than_twenty_hits_of_a_particle():
    particle_id = torch.cat([torch.ones(50, dtype=torch.int64), torch.full((50,), 2)])
    x = particle_id[:, None] + torch.linspace(0, 0.1, 100)[:, None]
    assert average_precision_at_k(x, particle_id, torch.ones(100, dtype=torch.bool)).ap == 1.0


def test_no_query_is_not_a_number():
    result = average_precision_at_k(
        torch.randn(5, 2), torch.zeros(5, dtype=torch.int64), torch.ones(5, dtype=torch.bool)
    )
    assert result.n_queries == 0
    assert math.isnan(result.ap)
    empty = average_precision_at_k(
        torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.bool)
    )
    assert empty.n_queries == 0


@given(seed=st.integers(0, 500), n=st.integers(2, 90), levels=st.integers(1, 40))
@settings(max_examples=25)
def test_is_the_definition_also_with_ties(seed, n, levels):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, levels, (n, 2), generator=generator).float()
    particle_id = torch.randint(0, 6, (n,), generator=generator)
    is_query = torch.rand(n, generator=generator) < 0.7
    result = average_precision_at_k(x, particle_id, is_query)
    if result.n_queries:
        assert result.ap == pytest.approx(literal(x, particle_id, is_query))


def test_groups_tiles_and_chunks_change_nothing(monkeypatch):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(700, 4, generator=generator)
    particle_id = torch.randint(0, 90, (700,), generator=generator)
    is_query = torch.ones(700, dtype=torch.bool)
    expected = literal(x, particle_id, is_query)
    for group, tile, chunk, wide in ((2, 64, 100, 256), (16, 16, 7, 1), (8, 128, 1000, 5)):
        monkeypatch.setattr(module, "GROUP", group)
        monkeypatch.setattr(module, "TILE", tile)
        monkeypatch.setattr(module, "CHUNK", chunk)
        monkeypatch.setattr(module, "WIDE", wide)
        assert average_precision_at_k(x, particle_id, is_query).ap == pytest.approx(expected)


@given(k=st.lists(st.integers(1, 100_000), max_size=3000).map(sorted))
def test_chunks_take_every_query_and_bounded_memory(k):
    chunks = module._cut_into_chunks(k, module.CHUNK)
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(range(len(k)))
    for chunk in chunks:
        n_queries = chunk.stop - chunk.start
        assert 1 <= n_queries <= module.CHUNK
        assert n_queries == 1 or n_queries * k[chunk.stop - 1] <= module.CHUNK * module.WIDE


@pytest.fixture
def default_dtype():
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", [-120, -60, 0, 60, 120])
def test_only_ratios_of_distances_count(default_dtype, exponent, dtype):
    """Squares of these overflow float32; sums do not depend on the user's default type."""
    default_dtype(dtype)
    generator = torch.Generator().manual_seed(2)
    particle_id = torch.randint(0, 60, (2500,), generator=generator)
    x = torch.randn(60, 3, generator=generator, dtype=torch.float32)[particle_id]
    x += torch.randn(2500, 3, generator=generator, dtype=torch.float32)
    is_query = torch.arange(2500) % 50 == 0
    found = average_precision_at_k(x * 2.0**exponent, particle_id, is_query)
    assert found.ap == pytest.approx(literal(x, particle_id, is_query))


def test_unusable_input_is_named():
    with pytest.raises(ValueError, match="have 2, 3 and 2 points"):
        average_precision_at_k(torch.zeros(2, 1), torch.zeros(3), torch.zeros(2, dtype=torch.bool))
    with pytest.raises(ValueError, match="not finite"):
        average_precision_at_k(torch.tensor([[torch.nan]]), torch.ones(1), torch.ones(1, dtype=torch.bool))


def published_metrics(x, particle_id, is_query):
    """The published procedure: all distances, and the nearest 20 points, the first being the query itself."""
    nearest = torch.cdist(x.double(), x.double()).topk(20, largest=False).indices
    rows = is_query.nonzero().squeeze(1)
    is_partner = particle_id[nearest[rows, 1:]] == particle_id[rows, None]  # (Q, 19)
    n_partners = (torch.bincount(particle_id)[particle_id[rows]] - 1).double()
    rank = torch.arange(1, 20)
    at_k = (is_partner & (rank <= n_partners[:, None])).sum(1) / n_partners
    return [
        float(part.double().mean()) for part in (at_k, is_partner.sum(1) / 19, is_partner.sum(1) / n_partners)
    ]


def test_all_three_numbers_are_those_of_the_published_procedure():
    generator = torch.Generator().manual_seed(4)
    particle_id = torch.randint(0, 180, (1500,), generator=generator)
    assert particle_id.bincount().max() <= 20  # the published procedure supports no larger particles
    centre = torch.randn(180, 4, generator=generator)
    x = centre[particle_id] + 0.3 * torch.randn(1500, 4, generator=generator)
    is_query = (particle_id > 0) & (particle_id % 2 == 0)
    result = average_precision_at_k(x, particle_id, is_query)
    expected = published_metrics(x, particle_id, is_query)
    assert 0.1 < expected[0] < expected[2] < 0.9
    assert [result.ap, result.precision, result.recall] == pytest.approx(expected, abs=1e-9)


def test_published_numbers(real_file):
    golden = np.load(real_file("golden/metric_n6850_pt0.9.npz"))
    result = average_precision_at_k(
        *(torch.from_numpy(golden[name]) for name in ("emb", "particle_id", "mask")),
    )
    assert [result.ap, result.precision, result.recall] == pytest.approx(golden["res"].tolist(), abs=2e-6)
