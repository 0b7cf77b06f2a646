"""Quality of the hash tables: collision rates, and true neighbours in a common block."""

import math

import pytest
import torch

from hept import Clouds
from hept.attention.definition import HashTables, cut_into_blocks


def make(dim=2, *, n_heads=1, n_tables=3, n_regions=20.0, and_coords=(0, 1), n_hidden_codes=0, periods=None):
    torch.manual_seed(0)
    return HashTables(
        dim,
        n_heads=n_heads,
        n_tables=n_tables,
        n_regions=n_regions,
        and_coords=and_coords,
        n_hidden_codes=n_hidden_codes,
        periods=periods or {},
    )


def collision_probability(distance, width):
    """p_r(z) of E²LSH (paper, Lemma D.1)."""
    ratio = width / distance
    return math.erf(ratio / math.sqrt(2)) - math.sqrt(2 / math.pi) / ratio * (1 - math.exp(-(ratio**2) / 2))


@pytest.mark.parametrize("ratio", [0.2, 0.7, 1.5, 4.0])
def test_projections_collide_as_the_closed_form_says(ratio):
    # Many heads and tables are many draws of a in h(x) = ⌊(a·x + b)/r⌋.
    a = make(dim=5, n_heads=400, n_tables=50).alpha.movedim(1, -1).flatten(0, 1)  # (draws, 5)
    x, y = torch.randn(2, 5)
    y = x + (y - x) / (y - x).norm()
    width = 1 / ratio
    b = torch.rand(len(a)) * width
    rate = (((a @ x + b) / width).floor() == ((a @ y + b) / width).floor()).float().mean().item()
    assert rate == pytest.approx(collision_probability(1.0, width), abs=4 * 0.5 / math.sqrt(len(a)))


def fraction_of_neighbours_in_block(*, n_tables, block_size, and_coords=(0, 1), n=2000):
    """Fraction of the 8 nearest points of each point that share a block with it in some table."""
    torch.manual_seed(3)
    points = torch.rand(n, 2)
    clouds = Clouds.from_offsets(torch.tensor([0, n]), n)
    tables = make(n_tables=n_tables, n_regions=n / block_size * 2, and_coords=and_coords)
    # Queries and keys of a trained layer differ; here keys are shifted copies of queries.
    order_q, order_k = tables(points[None], points[None] + 0.02, tables.rank_coords(points, clouds), clouds)
    block = cut_into_blocks(clouds, block_size).slot // block_size
    block_q, block_k = (
        torch.empty_like(o).scatter_(-1, o, block.expand(o.shape)) for o in (order_q, order_k)
    )
    nearest = torch.cdist(points, points).topk(9, largest=False).indices[:, 1:]  # (N, 8)
    shared = block_q[:, 0, :, None] == block_k[:, 0][:, nearest]  # (C, N, 8)
    return shared.any(0).float().mean().item()


def test_more_tables_and_larger_blocks_find_more_neighbours():
    by_tables = [fraction_of_neighbours_in_block(n_tables=c, block_size=50) for c in (1, 3, 5)]
    by_size = [fraction_of_neighbours_in_block(n_tables=3, block_size=s) for s in (25, 50, 100)]
    assert by_tables == sorted(by_tables)
    assert by_size == sorted(by_size)
    assert by_tables[2] > by_tables[0] + 0.2
    assert by_size[2] > by_size[0] + 0.05


def test_and_codes_of_coordinates_find_far_more_neighbours_than_or_alone():
    aligned = fraction_of_neighbours_in_block(n_tables=3, block_size=50)
    or_only = fraction_of_neighbours_in_block(n_tables=3, block_size=50, and_coords=())
    assert aligned > or_only + 0.2


def test_points_lie_in_the_order_of_cloud_codes_and_hash():
    torch.manual_seed(1)
    tables = make(n_tables=2, n_regions=6.0)
    points = torch.rand(40, 2)
    clouds = Clouds.from_offsets(torch.tensor([0, 15, 40]), 40)
    order, _ = tables(points[None], points[None], tables.rank_coords(points, clouds), clouds)
    for table in range(2):
        b_eta, b_phi = tables.regions[table, :, 0].tolist()
        keys = []
        for begin, end in ((0, 15), (15, 40)):
            n = end - begin
            eta, phi = points[begin:end, 0], points[begin:end, 1]
            for i in range(n):
                region_eta = int((eta < eta[i]).sum()) // math.ceil(n / b_eta)
                region_phi = int((phi < phi[i]).sum()) // math.ceil(n / b_phi)
                value = float(points[begin + i] @ tables.alpha[0, :, table])
                keys.append((begin, region_phi, region_eta, value))
        assert order[table, 0].tolist() == sorted(range(40), key=keys.__getitem__)


def test_tied_queries_and_keys_are_sorted_once():
    tables = make(and_coords=())
    points = torch.rand(30, 2)
    query = points[None]
    clouds = Clouds.from_offsets(torch.tensor([0, 30]), 30)
    order_q, order_k = tables(query, query, tables.rank_coords(points, clouds), clouds)
    assert order_q is order_k


def test_hidden_codes_put_queries_and_keys_into_the_same_quantiles():
    tables = make(and_coords=(), n_hidden_codes=1, n_regions=4.0, n_tables=1)
    query, key = torch.randn(1, 100, 2), torch.randn(1, 100, 2)
    clouds = Clouds.from_offsets(torch.tensor([0, 100]), 100)
    order_q, order_k = tables(query, key, tables.rank_coords(torch.zeros(100, 2), clouds), clouds)
    values = torch.cat([(z @ tables.and_alpha)[0, :, 0] for z in (query, key)])
    bucket = values.argsort().argsort() // 50
    assert bucket[order_q[0, 0]].diff().min() >= 0
    assert bucket[100 + order_k[0, 0]].diff().min() >= 0
