import math

import pytest

from hept.training.schedule import Schedule


def make(kind, **changes):
    return Schedule(lr=1.0, kind=kind, steps_per_epoch=10, n_steps=100, **changes)


def test_step_halves_every_step_epochs():
    schedule = make("step", step_epochs=3)
    assert [schedule.rate(10 * epoch) for epoch in (0, 2, 3, 5, 6, 9)] == [1, 1, 0.5, 0.5, 0.25, 0.125]


def test_cosine_falls_to_nothing():
    schedule = make("cosine")
    assert [schedule.rate(step) for step in (0, 50, 100)] == pytest.approx([1, 0.5, 0], abs=1e-12)


def test_cosine_ends_with_the_time():
    schedule = make("cosine")
    assert [schedule.rate(0, used) for used in (0, 0.5, 1, 1.2)] == pytest.approx([1, 0.5, 0, 0], abs=1e-12)
    assert schedule.rate(50, 0.1) == pytest.approx(0.5)


def test_warm_up_grows_linearly_then_ends():
    schedule = make("constant", warmup_steps=4)
    assert [schedule.rate(step) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])


def test_plateau_halves_when_patience_is_over_and_starts_counting_again():
    schedule = make("plateau", patience=2)
    rates = []
    for metric in (0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.7):
        schedule.end_epoch(metric)
        rates.append(schedule.rate(0))
    assert rates == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_the_memory_is_saved_and_restored():
    schedule = make("plateau", patience=0)
    for metric in (0.5, 0.4, 0.4):
        schedule.end_epoch(metric)
    other = make("plateau", patience=0)
    other.load_state_dict(schedule.state_dict())
    assert other.rate(0) == schedule.rate(0) == 0.25
    other.end_epoch(math.nan)
    assert other.n_reductions == 3
