"""Parameters and operations against the paper's tables and a count by hand."""

import pytest

from hept import HEPT
from hept.model.flops import count_operations, count_parameters


def tracking(**settings):
    return HEPT(15, 6, 12, **settings)


def test_the_published_model_has_its_size():
    total, trainable = count_parameters(tracking())
    # The authors' file also holds four unused biases of 192, and only one copy of the regions.
    assert trainable == 326_436 - 4 * 192
    assert total == 329_364 - 4 * 192 + 3 * 48
    assert round(total / 1e6, 2) == 0.33


@pytest.mark.parametrize(
    ("model", "n_points", "published"),
    [
        (tracking(), 6_000, 5.0),
        (tracking(), 60_000, 52.2),
        (HEPT(8, 4, 1, head="classification", n_classes=8, n_regions=140), 10_000, 8.5),
        (tracking(n_tables=1, block_size=50), 60_000, 24.2),
        (tracking(n_tables=5, block_size=150), 60_000, 102.6),
    ],
)
def test_operations_are_those_of_the_paper(model, n_points, published):
    n_features = model.n_features
    cost = count_operations(model, n_points, n_features, model.coords_dim)
    assert cost.total / 1e9 == pytest.approx(published, rel=0.15)


# In plain torch, norms are two more columns of features, two of coordinates; the normalisation one of values.
@pytest.mark.parametrize(("backend", "n_more"), [("plain", 5), ("auto", 0)])
def test_operations_are_those_counted_by_hand(backend, n_more):
    n, hidden, heads, tables, size, layers = 64, 8, 2, 3, 16, 2
    model = HEPT(
        5,
        3,
        4,
        n_layers=layers,
        hidden_dim=hidden,
        n_heads=heads,
        n_tables=tables,
        block_size=size,
        backend=backend,
    )
    cost = count_operations(model, n, 5, 3)
    width = hidden * heads
    projections = n * 4 * hidden * width
    # Hash the inputs instead of queries and keys: the projections are folded into the hash directions.
    hashing = 2 * n * width // hidden * (hidden + 3) * tables + 2 * tables * width * hidden
    blocks = tables * heads * (n // size) * size**2 * (2 * hidden + 3 + n_more)
    assert cost.parts["attention"] == layers * (projections + hashing + blocks)
    assert cost.parts["ff"] == layers * n * 2 * hidden**2
    assert cost.parts["encoder"] == n * (5 * hidden + hidden**2)
    assert cost.total == sum(cost.parts.values())


def test_an_empty_cloud_has_no_cost_to_count():
    with pytest.raises(ValueError, match="n_points: got 0, need at least 1"):
        count_operations(tracking(), 0, 15, 6)
