"""Random-feature estimates are unbiased, and their error falls as 1/√(number of features)."""

import pytest
import torch

from hept.attention.clouds import Clouds
from hept.paper.systems.exact import ExactAttention
from hept.paper.systems.flt import FLTAttention
from hept.paper.systems.performer import PerformerAttention, draw_orthogonal, log_features
from hept.paper.systems.scatterbrain import ScatterBrainAttention


def estimates(n_random, kernel, n_draws, q, k):
    torch.manual_seed(0)
    directions = draw_orthogonal(n_draws, n_random, 4).double()
    phi = [log_features(x.expand(n_draws, 1, 4), directions, kernel).exp()[:, 0] for x in (q, k)]
    return (phi[0] * phi[1]).mean(-1)


@pytest.mark.parametrize("kernel", ["dot", "gauss"])
def test_features_are_unbiased_and_converge(kernel):
    q, k = torch.tensor([0.3, -0.5, 0.1, 0.4]).double(), torch.tensor([0.2, 0.6, -0.3, 0.1]).double()
    exact = torch.exp(q @ k if kernel == "dot" else -0.5 * (q - k).square().sum())
    few, many = (estimates(n, kernel, 4000, q, k) for n in (8, 128))
    for drawn in (few, many):
        assert abs(drawn.mean() - exact) < 4 * drawn.std() / 4000**0.5
    assert few.std() / many.std() == pytest.approx(4, rel=0.15)


def test_directions_are_orthogonal_in_groups_and_as_long_as_gaussian_vectors():
    torch.manual_seed(0)
    drawn = draw_orthogonal(500, 10, 4)
    products = drawn[:, :4] @ drawn[:, :4].mT
    assert (products - torch.diag_embed(products.diagonal(dim1=1, dim2=2))).abs().max() < 1e-4
    assert drawn.square().sum(-1).mean().item() == pytest.approx(4, rel=0.05)


def error_against_exact(vectors, n_random, make):
    query, key, value, coords, clouds = vectors
    # Small: at 0.5 the error fell only 3.4-fold, not 16-fold, from 64 to 16,384 features (long tails).
    query, key = 0.2 * query, 0.2 * key
    exact = ExactAttention()(query, key, value, coords, clouds)
    squares = []
    for seed in range(20):
        torch.manual_seed(seed)
        squares.append((make(n_random)(query, key, value, coords, clouds) - exact).square().mean())
    return torch.stack(squares).mean().sqrt().item()


@pytest.mark.parametrize(
    "make",
    [
        lambda n: PerformerAttention(2, 4, n_random=n),
        lambda n: ScatterBrainAttention(2, 4, block_size=10, n_tables=2, n_random=n),
    ],
    ids=["performer", "scatterbrain"],
)
def test_attention_converges_as_the_root_of_features(vectors, make):
    few, many = (error_against_exact(vectors, n, make) for n in (64, 1024))
    assert few / many == pytest.approx(4, rel=0.3)


def test_blocks_make_scatterbrain_better_than_its_features_alone(vectors):
    alone = error_against_exact(vectors, 32, lambda n: PerformerAttention(2, 4, n_random=n))
    both = error_against_exact(
        vectors, 32, lambda n: ScatterBrainAttention(2, 4, block_size=20, n_tables=2, n_random=n)
    )
    assert both < 0.8 * alone


def test_pairs_that_meet_in_several_tables_count_once(vectors):
    query, key, value, coords, clouds = vectors
    torch.manual_seed(0)
    # All tables are equal: every pair shares a block in all three tables or in none.
    mechanism = ScatterBrainAttention(2, 4, block_size=10, n_tables=3, n_random=8)
    mechanism.alpha[:] = mechanism.alpha[:1]
    once = ScatterBrainAttention(2, 4, block_size=10, n_tables=1, n_random=8)
    once.alpha, once.directions = mechanism.alpha[:1].clone(), mechanism.directions
    torch.testing.assert_close(
        mechanism(query, key, value, coords, clouds), once(query, key, value, coords, clouds)
    )


def test_positional_features_of_flt_are_unbiased_and_converge():
    coords = torch.tensor([[0.0, 0.0], [0.6, -0.8]]).double()
    spreads = []
    for n_positional in (8, 128):
        torch.manual_seed(0)
        mechanism = FLTAttention(1000, 4, 2, n_positional=n_positional, n_random=1)
        with torch.no_grad():
            mechanism.log_sigma.fill_(0.5)
            waves = mechanism.positional_features(coords)
        drawn = (waves[:, 0] * waves[:, 1]).sum(-1)
        exact = torch.exp(torch.tensor(-1.0 / torch.e)).item()
        assert abs(drawn.mean().item() - exact) < 4 * drawn.std().item() / 1000**0.5
        spreads.append(drawn.std().item())
    assert spreads[0] / spreads[1] == pytest.approx(4, rel=0.15)


def test_flt_attends_by_product_and_position(vectors):
    query, key, value, coords, clouds = vectors
    query, key = 0.3 * query, 0.3 * key
    torch.manual_seed(0)
    mechanism = FLTAttention(2, 4, 2, n_positional=200, n_random=20_000).double()
    with torch.no_grad():
        found = mechanism(query, key, value, coords, clouds)
    expected = []
    for a, b in ((0, 40), (40, 65)):
        place = torch.exp(-torch.cdist(coords[a:b], coords[a:b]).square())
        expected.append((query[:, a:b] @ key[:, a:b].mT + place).softmax(-1) @ value[:, a:b])
    assert (found - torch.cat(expected, 1)).square().mean().sqrt() < 0.08


def test_an_odd_number_of_positional_features_is_refused():
    with pytest.raises(ValueError, match="n_positional is 3; sines and cosines need an even number"):
        FLTAttention(1, 4, 2, n_positional=3)


def test_performer_survives_large_queries():
    clouds = Clouds.from_offsets(torch.tensor([0, 5]), 5)
    query = 30 * torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(0))
    out = PerformerAttention(1, 4)(query, query, torch.ones(1, 5, 2), torch.zeros(5, 2), clouds)
    torch.testing.assert_close(out, torch.ones(1, 5, 2))
