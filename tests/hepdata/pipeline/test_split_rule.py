import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepdata.errors import InputError
from hepdata.pipeline.event_source import EventRef
from hepdata.pipeline.split_rule import MAX_EVENTS_PER_SHARD, SHARDS_PER_SPLIT, SplitRule, plan_shards


def events(n_events, first=0):
    return [EventRef(first + i, f"event{first + i}") for i in range(n_events)]


def sizes(divided):
    return {split: len(chosen) for split, chosen in divided.items()}


@pytest.mark.parametrize(
    ("n_events", "expected"),
    [
        (1, {"train": 1}),
        (2, {"train": 2}),
        (3, {"train": 1, "valid": 1, "test": 1}),
        (5, {"train": 3, "valid": 1, "test": 1}),
        (12, {"train": 10, "valid": 1, "test": 1}),
        (100, {"train": 80, "valid": 10, "test": 10}),
        (1000, {"train": 800, "valid": 100, "test": 100}),
    ],
)
def test_published_shares(n_events, expected):
    assert sizes(SplitRule().divide(events(n_events))) == expected


@given(n_events=st.integers(1, 300), shares=st.tuples(*[st.integers(0, 100)] * 3).filter(any))
def test_every_event_is_in_one_split_in_order(n_events, shares):
    divided = SplitRule(shares=tuple(map(float, shares))).divide(events(n_events))
    assert [event for chosen in divided.values() for event in chosen] == events(n_events)
    assert all(shares[("train", "valid", "test").index(split)] > 0 for split in divided)


def test_shares_of_nothing_get_nothing():
    assert sizes(SplitRule.parse("0/0/100").divide(events(7))) == {"test": 7}
    assert sizes(SplitRule.parse("100/0/0").divide(events(7))) == {"train": 7}


def test_ranges_of_event_ids():
    rule = SplitRule.parse("train=1000-1003, test=1005,valid=1004-1004")
    assert sizes(rule.divide(events(10, first=1000))) == {"train": 4, "valid": 1, "test": 1}


@pytest.mark.parametrize("text", ["", "80/20", "a/b/c", "0/0/0", "1.2.3/1/1", "train", "train=5-", "dev=1-2"])
def test_rules_that_are_none(text):
    with pytest.raises(InputError, match="expected shares like 80/10/10, or ranges"):
        SplitRule.parse(text)


def test_ranges_that_hold_no_event():
    with pytest.raises(InputError, match="ranges that hold none of the events 0 to 4"):
        SplitRule.parse("train=10-20").divide(events(5))


def test_ranges_that_overlap():
    with pytest.raises(InputError, match="event 3 in test and train"):
        SplitRule.parse("train=0-3,test=3-4").divide(events(5))


@pytest.mark.parametrize("n_events", [1, 15, 16, 17, 200, 10_000])
def test_shards_are_runs_of_events_of_one_split(n_events):
    divided = SplitRule().divide(events(n_events))
    plans = plan_shards(divided, None)
    assert [event for plan in plans for event in plan.events] == events(n_events)
    assert max(len(plan.events) for plan in plans) <= MAX_EVENTS_PER_SHARD
    for split in divided:
        names = [plan.name for plan in plans if plan.split == split]
        assert names == [f"{split}-{i:05d}-of-{len(names):05d}.parquet" for i in range(len(names))]
        assert len(names) <= max(SHARDS_PER_SPLIT, -(-len(divided[split]) // MAX_EVENTS_PER_SHARD))


def test_the_size_of_a_shard_can_be_given():
    plans = plan_shards({"train": events(5)}, 2)
    assert [len(plan.events) for plan in plans] == [2, 2, 1]
