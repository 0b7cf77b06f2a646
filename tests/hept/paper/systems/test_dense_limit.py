"""If one block or window holds the whole cloud, an approximation must be exact."""

import pytest
import torch

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.paper.systems.block_attention import gather_slots, return_to_points
from hept.paper.systems.exact import ExactAttention, log_kernel
from hept.paper.systems.flatformer import FlatFormerAttention
from hept.paper.systems.hyper_attention import HyperAttention, gray_rank
from hept.paper.systems.reformer import ReformerAttention, previous_block
from hept.paper.systems.scatterbrain import ScatterBrainAttention
from hept.paper.systems.smyrf import SmyrfAttention, transform

WHOLE = 64


def literal(query, key, value, clouds, kernel):
    """Attention by its definition, one point at a time."""
    out = torch.zeros_like(value)
    for head in range(query.shape[0]):
        for u in range(query.shape[1]):
            mates = (clouds.index == clouds.index[u]).nonzero()[:, 0]
            q, k = query[head, u], key[head, mates]
            weight = torch.exp(k @ q if kernel == "dot" else -0.5 * (k - q).square().sum(-1))
            out[head, u] = (weight[:, None] * value[head, mates]).sum(0) / weight.sum()
    return out


@pytest.mark.parametrize("kernel", ["dot", "gauss"])
def test_exact_attention_is_its_definition(vectors, kernel):
    query, key, value, coords, clouds = vectors
    found = ExactAttention(kernel)(query, key, value, coords, clouds)
    torch.testing.assert_close(found, literal(query, key, value, clouds, kernel))


def test_gaussian_kernel_keeps_close_far_away_pairs_in_single_precision():
    far = torch.full((1, 2, 3), 3000.0)
    far[0, 1] += 0.01
    assert log_kernel(far, far, "gauss")[0, 0, 1].item() == pytest.approx(-0.5 * 3e-4, rel=0.05)


@pytest.mark.parametrize(
    "mechanism",
    [
        SmyrfAttention(2, 4, block_size=WHOLE, n_tables=2),
        HyperAttention(2, 4, block_size=WHOLE, n_samples=7),
        ScatterBrainAttention(2, 4, block_size=WHOLE, n_tables=2, n_random=6),
        FlatFormerAttention(block_size=WHOLE),
        FlatFormerAttention(block_size=WHOLE, layer=3),
    ],
    ids=lambda one: type(one).__name__,
)
def test_one_block_is_exact(vectors, mechanism):
    query, key, value, coords, clouds = vectors
    found = mechanism(query, key, value, coords, clouds)
    torch.testing.assert_close(found, literal(query, key, value, clouds, "dot"))


@pytest.mark.parametrize(
    "mechanism",
    [
        SmyrfAttention(2, 4, block_size=WHOLE, n_tables=2, kernel="gauss"),
        FlatFormerAttention(block_size=WHOLE, kernel="gauss"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_one_block_is_exact_with_the_kernel_of_hept(vectors, mechanism):
    query, key, value, coords, clouds = vectors
    found = mechanism(query, key, value, coords, clouds)
    torch.testing.assert_close(found, literal(query, key, value, clouds, "gauss"))


@pytest.mark.parametrize("block_size", [WHOLE, 20])
def test_reformer_sees_everyone_but_itself_in_one_block_or_in_two(vectors, block_size):
    query, _, value, coords, clouds = vectors
    # A cloud of 40 in two blocks of 20, each of which also attends to the other, so that all tables agree.
    found = ReformerAttention(2, 4, block_size=block_size, n_tables=2)(query, query, value, coords, clouds)
    key = query / query.norm(dim=-1, keepdim=True) * 4**0.25
    expected = torch.zeros_like(value)
    for head in range(2):
        for u in range(65):
            mates = ((clouds.index == clouds.index[u]) & (torch.arange(65) != u)).nonzero()[:, 0]
            weight = torch.exp(key[head, mates] @ query[head, u])
            expected[head, u] = (weight[:, None] * value[head, mates]).sum(0) / weight.sum()
    torch.testing.assert_close(found, expected)


def test_reformer_attends_to_itself_where_there_is_nobody_else():
    query, value = torch.randn(1, 1, 4), torch.randn(1, 1, 3)
    found = ReformerAttention(1, 4)(
        query, query, value, torch.zeros(1, 2), Clouds.from_offsets(torch.tensor([0, 1]), 1)
    )
    torch.testing.assert_close(found, value)


def test_blocks_are_preceded_by_blocks_of_their_cloud():
    clouds = Clouds.from_offsets(torch.tensor([0, 25, 25, 33]), 33)
    before = previous_block(cut_into_blocks(clouds, 10), clouds)
    # Three blocks of the first cloud, none of the second, one of the third.
    assert before[:4].tolist() == [2, 0, 1, 3]


def test_transforms_turn_products_into_distances(vectors):
    query, key, *_, clouds = vectors
    f, g = transform(query, key, clouds)
    norms = [z[:, :40].norm(dim=-1).amax(1).square() for z in (query, key)]
    distance = (f[:, :40, None] - g[:, None, :40]).square().sum(-1)
    product = query[:, :40] @ key[:, :40].mT
    torch.testing.assert_close(distance, 2 * (norms[0] + norms[1])[:, None, None] - 2 * product)


def test_gray_neighbours_differ_by_one_bit():
    codes = torch.arange(128)
    order = torch.argsort(gray_rank(codes, 7))
    assert torch.equal(gray_rank(codes, 7).sort().values, codes)
    changed = order[1:] ^ order[:-1]
    assert all(bin(bits).count("1") == 1 for bits in changed.tolist())


def test_hyper_attention_estimates_the_rest_without_bias(vectors):
    query, key, value, coords, clouds = vectors
    torch.manual_seed(0)
    exact = literal(query, key, value, clouds, "dot")
    mechanism = HyperAttention(2, 4, block_size=10, n_samples=2000)
    # Fractions on a grid sample every key of a cloud equally often: the estimate is then the sum itself.
    mechanism.fractions = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    near = cut_into_blocks(clouds, 10)
    assert near.position.shape[1] == 10
    found = _with_all_samples(mechanism, query, key, value, coords, clouds)
    torch.testing.assert_close(found, exact)


def _with_all_samples(mechanism, query, key, value, coords, clouds):
    outs = []
    for a, b in ((0, 40), (40, 65)):
        cloud = Clouds.from_offsets(torch.tensor([0, b - a]), b - a)
        mechanism.fractions = (torch.arange(b - a, dtype=torch.float64) + 0.5) / (b - a)
        outs.append(mechanism(query[:, a:b], key[:, a:b], value[:, a:b], coords[a:b], cloud))
    return torch.cat(outs, 1)


def test_points_laid_into_slots_come_back(vectors):
    query, *_, clouds = vectors
    blocks = cut_into_blocks(clouds, 7)
    order = torch.stack([torch.arange(65), torch.cat([torch.arange(39, -1, -1), torch.arange(40, 65)])])
    assert torch.equal(return_to_points(gather_slots(query, order, blocks), order, blocks), query)


def test_windows_follow_each_other_along_alternating_axes():
    coords = torch.tensor([[0.0, 0.0], [0.9, 0.1], [0.1, 0.9], [1.0, 1.0]])
    clouds = Clouds.from_offsets(torch.tensor([0, 4]), 4)
    along_eta = FlatFormerAttention(layer=0, n_windows=2).sort(coords, clouds)
    along_phi = FlatFormerAttention(layer=1, n_windows=2).sort(coords, clouds)
    assert along_eta.tolist() == [0, 2, 1, 3]
    assert along_phi.tolist() == [0, 1, 2, 3]
