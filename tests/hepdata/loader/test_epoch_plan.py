"""Which clouds come when: every cloud once an epoch, whatever the ranks, the same after a resume."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hepdata.errors import InputError
from hepdata.loader.epoch_plan import EpochPlan

plans = st.fixed_dictionaries(
    {
        "shard_rows": st.lists(st.integers(0, 12), min_size=1, max_size=5).map(tuple),
        "batch_size": st.integers(1, 5),
        "shuffle": st.booleans(),
        "seed": st.integers(0, 5),
        "buffer": st.integers(1, 30),
    }
)


@settings(max_examples=150)
@given(settings_=plans, world_size=st.integers(1, 5), epoch=st.integers(0, 3))
def test_every_cloud_once_and_equal_steps(settings_, world_size, epoch):
    n_clouds = sum(settings_["shard_rows"])
    if 0 < n_clouds < world_size:
        return
    ranks = [EpochPlan(**settings_, rank=rank, world_size=world_size) for rank in range(world_size)]
    batches = [plan.batches(epoch) for plan in ranks]
    assert len({len(own) for own in batches}) == 1
    assert len(batches[0]) == ranks[0].n_steps()
    seen = [int(index) for own in batches for batch in own for index in batch]
    assert sorted(seen) == list(range(n_clouds))
    assert all(len(batch) > 0 for own in batches for batch in own)
    largest = settings_["batch_size"] + (settings_["batch_size"] == 1)
    assert all(len(batch) <= largest for own in batches for batch in own)


def test_one_rank_cuts_as_usual():
    plan = EpochPlan(shard_rows=(4, 6), batch_size=4)
    assert [batch.tolist() for batch in plan.batches(0)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    ("n", "batch_size", "world_size", "sizes"),
    [
        (10, 2, 2, [2, 2, 2, 2, 1, 1]),
        (9, 2, 2, [2, 2, 2, 1, 1, 1]),
        (5, 1, 2, [1, 1, 2, 1]),
        (7, 1, 3, [1, 1, 1, 2, 1, 1]),
        (0, 3, 2, []),
    ],
)
def test_rest_is_spread_over_ranks(n, batch_size, world_size, sizes):
    plan = EpochPlan(shard_rows=(n,), batch_size=batch_size, world_size=world_size)
    assert plan.batch_sizes().tolist() == sizes


@settings(max_examples=50)
@given(
    rows=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    buffer=st.integers(1, 200),
    seed=st.integers(0, 9),
)
def test_no_cloud_moves_further_than_the_buffer(rows, buffer, seed):
    """A reader that holds `buffer` clouds could make this order while it streams the shards."""
    plan = EpochPlan(shard_rows=tuple(rows), shuffle=True, seed=seed, buffer=buffer)
    order = plan.order(0)
    if buffer >= plan.n_clouds:
        return
    starts = np.cumsum([0, *rows])
    shard_of = np.searchsorted(starts, order, side="right") - 1
    shards = np.random.default_rng([seed, 0]).permutation(len(rows))
    stream = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in shards])
    place = np.empty(len(stream), int)
    place[stream] = np.arange(len(stream))
    assert np.abs(place[order] - np.arange(len(order))).max() < buffer
    assert len(shard_of) == plan.n_clouds


def test_epochs_and_seeds_differ():
    plan = EpochPlan(shard_rows=(40,), shuffle=True)
    other = EpochPlan(shard_rows=(40,), shuffle=True, seed=1)
    assert plan.order(0).tolist() == plan.order(0).tolist()
    assert plan.order(0).tolist() != plan.order(1).tolist()
    assert plan.order(0).tolist() != other.order(0).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "loader, batch_size: found 0; expected at least 1"),
        ({"world_size": 0}, "loader, world_size: found 0"),
        ({"rank": 2, "world_size": 2}, "loader, rank: found 2; expected 0 … 1"),
        ({"buffer": 0}, "loader, buffer: found 0"),
        ({"seed": -1}, "loader, seed: found -1"),
        ({"world_size": 4}, "found 3 clouds for 4 ranks"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(InputError, match=message):
        EpochPlan(shard_rows=(3,), **arguments)


@settings(max_examples=150)
@example(points=[0, 0, 0], batch_points=1, world_size=1, epoch=0)
@given(
    points=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    batch_points=st.integers(1, 120),
    world_size=st.integers(1, 4),
    epoch=st.integers(0, 3),
)
def test_batches_by_points_hold_every_cloud_once_and_no_more_than_fits(
    points, batch_points, world_size, epoch
):
    if len(points) < world_size:
        return
    common = {
        "shard_rows": (len(points),),
        "shuffle": True,
        "batch_points": batch_points,
        "cloud_points": tuple(points),
        "world_size": world_size,
    }
    batches = [EpochPlan(**common, rank=rank).batches(epoch) for rank in range(world_size)]
    assert {len(own) for own in batches} == {EpochPlan(**common).n_steps(epoch)}
    assert sorted(int(i) for own in batches for batch in own for i in batch) == list(range(len(points)))
    for step in zip(*batches, strict=True):
        assert all(len(batch) for batch in step)
    # The last step may hold what was left over. An empty cloud counts as a point.
    for step in list(zip(*batches, strict=True))[:-1]:
        loads = [sum(max(points[i], 1) for i in batch) for batch in step]
        assert all(load <= batch_points or len(batch) == 1 for load, batch in zip(loads, step, strict=True))
        # Each cloud went to the rank with the fewest points: no two differ by more than one cloud.
        assert max(loads) - min(loads) <= max(max(points[i], 1) for batch in step for i in batch)


def test_batches_by_points_fill_up():
    plan = EpochPlan(shard_rows=(6,), batch_points=100, cloud_points=(60, 40, 30, 120, 90, 10))
    assert [batch.tolist() for batch in plan.batches(0)] == [[0, 1], [2], [3], [4, 5]]
