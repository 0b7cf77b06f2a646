import math

import pytest
import torch

from hept.settings.fields import OptimizerConfig
from hept.training.schedule import Schedule


def make(kind, **changes):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=1.0)
    settings = OptimizerConfig(schedule=kind, **changes)
    return Schedule(optimizer, settings, steps_per_epoch=10, n_steps=100)


def rates(schedule, n_steps):
    """The rates of the next steps."""
    found = []
    for _ in range(n_steps):
        found.append(schedule.rate)
        schedule.optimizer.step()
        schedule.end_step()
    return found


def test_step_halves_every_step_epochs():
    found = rates(make("step", step_epochs=3), 91)
    assert [found[10 * epoch] for epoch in (0, 2, 3, 5, 6, 9)] == [1, 1, 0.5, 0.5, 0.25, 0.125]


def test_cosine_falls_to_nothing():
    found = rates(make("cosine"), 101)
    assert found == pytest.approx([0.5 + 0.5 * math.cos(math.pi * i / 100) for i in range(101)], abs=1e-12)


@pytest.mark.parametrize("warmup_steps", [0, 4])
def test_warm_up_grows_linearly_then_ends(warmup_steps):
    found = rates(make("constant", warmup_steps=warmup_steps), 7)
    assert found == pytest.approx([min(1, (i + 1) / (warmup_steps + 1)) for i in range(7)])


def test_warm_up_is_a_factor_of_the_cosine():
    found = rates(make("cosine", warmup_steps=3), 5)
    expected = [min(1, (i + 1) / 4) * (0.5 + 0.5 * math.cos(math.pi * i / 100)) for i in range(5)]
    assert found == pytest.approx(expected)


def test_plateau_halves_when_patience_is_over_and_starts_counting_again():
    schedule = make("plateau", patience=2)
    found = []
    for metric in (0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.7):
        schedule.end_epoch(metric)
        found.append(schedule.rate)
    assert found == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_a_step_that_float16_left_out_first_warns_of_nothing(recwarn):
    schedule = make("cosine")
    schedule.end_step()
    assert not recwarn


@pytest.mark.parametrize("kind", ["step", "cosine", "plateau"])
def test_the_memory_is_saved_and_restored(kind):
    changes = {"patience": 0, "warmup_steps": 5, "step_epochs": 1}
    schedule, other = make(kind, **changes), make(kind, **changes)
    rates(schedule, 3)
    for metric in (0.5, 0.4):
        schedule.end_epoch(metric)
    other.load_state_dict(schedule.state_dict())
    other.optimizer.load_state_dict(schedule.optimizer.state_dict())
    # A figure that is not a number is no improvement.
    for each in (schedule, other):
        each.end_epoch(math.nan)
    assert rates(other, 20) == rates(schedule, 20)
