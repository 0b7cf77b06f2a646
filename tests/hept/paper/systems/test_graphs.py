"""Graph layers against explicit sums over small graphs."""

import math

import pytest
import torch

from hept.attention.clouds import Clouds
from hept.paper.systems import neighbors
from hept.paper.systems.dgcnn import EdgeConvLayer
from hept.paper.systems.gated_gnn import GatedLayer
from hept.paper.systems.gcn import GCNLayer
from hept.paper.systems.gravnet import GravNetLayer
from hept.paper.systems.neighbors import GraphMemory, find_neighbors
from hept.paper.systems.point_transformer import PointTransformerAttention

# A row of four points, with the two nearest of each in NEAR, and a cloud of two.
COORDS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.1, 0.0], [3.3, 0.0], [0.0, 0.0], [0.5, 0.0]]).double()
NEAR = {0: [1, 2], 1: [0, 2], 2: [1, 3], 3: [2, 1], 4: [5], 5: [4]}


@pytest.fixture
def clouds():
    return Clouds.from_offsets(torch.tensor([0, 4, 6]), 6)


@pytest.fixture
def x():
    return torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).double()


def test_gcn_is_its_sum(clouds, x):
    layer = GCNLayer(5, GraphMemory(2)).double()
    with torch.no_grad():
        layer.bias.uniform_()
    expected = []
    for u, near in NEAR.items():
        terms = [layer.linear(x[w]) / math.sqrt((len(near) + 1) * (len(NEAR[w]) + 1)) for w in [*near, u]]
        expected.append(sum(terms) + layer.bias)
    torch.testing.assert_close(layer(x, COORDS, clouds), torch.stack(expected))


def test_gated_layer_is_a_recurrent_unit_of_the_mean_message(clouds, x):
    layer = GatedLayer(5, GraphMemory(2)).double()
    message = torch.stack([torch.stack([layer.linear(x[w]) for w in near]).mean(0) for near in NEAR.values()])
    torch.testing.assert_close(layer(x, COORDS, clouds), layer.gru(message, x))


def test_edge_convolution_is_the_mean_of_its_edges(clouds, x):
    layer = EdgeConvLayer(5, GraphMemory(2)).double()
    expected = []
    for u, near in NEAR.items():
        edges = []
        for w in near:
            first = layer.of_target(x[u]) + layer.of_difference(x[w] - x[u])
            edges.append(layer.second(layer.norm(first).relu()).relu())
        expected.append(torch.stack(edges).mean(0))
    torch.testing.assert_close(layer(x, COORDS, clouds), torch.stack(expected))


def test_edge_convolution_finds_neighbours_among_features(clouds, x):
    layer = EdgeConvLayer(5, None, 2).double()
    in_plane = EdgeConvLayer(5, GraphMemory(2)).double()
    in_plane.load_state_dict(layer.state_dict())
    # Features equal to the coordinates give the same graph.
    x = torch.cat([COORDS[:, :1], torch.zeros(6, 4).double()], 1)
    torch.testing.assert_close(layer(x, COORDS, clouds), in_plane(x, COORDS, clouds))


def test_gravnet_weighs_by_distance_in_its_space(clouds, x):
    layer = GravNetLayer(5, 2, space_dim=2, n_propagated=3).double()
    with torch.no_grad():
        layer.to_space.weight.zero_()
        layer.to_space.weight[0, 0] = 1.0
        layer.to_space.bias.zero_()
    x = torch.cat([COORDS[:, :1], x[:, 1:]], 1)  # the space is η then
    sent = layer.to_propagate(x)
    expected = []
    for u, near in NEAR.items():
        received = [math.exp(-10 * float(COORDS[u, 0] - COORDS[w, 0]) ** 2) * sent[w] for w in near]
        received += [torch.zeros(3).double()] * (2 - len(near))
        both = torch.cat([sum(received) / len(near), torch.stack(received).amax(0)])
        expected.append(layer.of_self(x[u]) + layer.of_received(both))
    torch.testing.assert_close(layer(x, COORDS, clouds), torch.stack(expected))


def test_point_transformer_is_its_definition(clouds, x):
    layer = PointTransformerAttention(5, 2, width=7, graph=GraphMemory(2)).double()
    expected, features, x = [], x, layer.enter(x).relu()
    for u, near in NEAR.items():
        deltas = [layer.theta(COORDS[u] - COORDS[w]) for w in [*near, u]]
        pairs = list(zip([*near, u], deltas, strict=True))
        scores = [layer.w_target(x[u]) - layer.w_source(x[w]) + delta for w, delta in pairs]
        weights = torch.stack(scores).softmax(0)
        values = torch.stack([layer.w_value(x[w]) + delta for w, delta in pairs])
        expected.append(layer.out_linear((weights * values).sum(0)))
    torch.testing.assert_close(layer(features, COORDS, clouds), torch.stack(expected))


@pytest.mark.parametrize("by_tree", [True, False])
@pytest.mark.parametrize("is_periodic", [True, False])
def test_neighbours_are_the_brute_force_ones(by_tree, is_periodic, monkeypatch):
    monkeypatch.setattr(neighbors, "MAX_TREE_DIMENSIONS", 9 if by_tree else 0)
    monkeypatch.setattr(neighbors, "CHUNK_DISTANCES", 1000)
    torch.manual_seed(0)
    positions = torch.rand(90, 2).double() * torch.tensor([4.0, 2 * math.pi]) - torch.tensor([2.0, math.pi])
    clouds = Clouds.from_offsets(torch.tensor([0, 50, 90]), 90)
    found = find_neighbors(positions, clouds, 5, periods={1: 2 * math.pi} if is_periodic else None)
    apart = (positions[:, None] - positions[None]).abs()
    if is_periodic:
        apart[..., 1] = torch.minimum(apart[..., 1], 2 * math.pi - apart[..., 1])
    distance = apart.square().sum(-1)
    distance[clouds.index[:, None] != clouds.index[None]] = torch.inf
    distance.fill_diagonal_(torch.inf)
    expected = distance.topk(5, largest=False).indices
    assert found.is_real.all()
    assert torch.equal(found.index.sort().values, expected.sort().values)


def test_coinciding_points_are_neighbours_but_not_of_themselves():
    clouds = Clouds.from_offsets(torch.tensor([0, 6]), 6)
    found = find_neighbors(torch.zeros(6, 2), clouds, 3)
    assert found.is_real.all()
    assert (found.index != torch.arange(6)[:, None]).all()


def test_small_clouds_have_fewer_neighbours():
    clouds = Clouds.from_offsets(torch.tensor([0, 1, 1, 4]), 4)
    found = find_neighbors(torch.rand(4, 2), clouds, 5)
    assert found.is_real.sum(1).tolist() == [0, 2, 2, 2]


def test_a_graph_without_neighbours_is_refused(clouds):
    with pytest.raises(ValueError, match="n_neighbors is 0; a graph needs at least one"):
        find_neighbors(COORDS, clouds, 0)


def test_the_graph_is_built_once_for_a_batch(clouds):
    memory = GraphMemory(2)
    first = memory.of(COORDS, clouds)
    assert memory.of(COORDS, clouds) is first
    assert memory.of(COORDS, Clouds.from_offsets(torch.tensor([0, 4, 6]), 6)) is not first
