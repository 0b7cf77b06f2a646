"""The switch for the same result every time, and the list of operators that do not give it."""

import os

import pytest
import torch

from benchmarks.step_counts import AtomicOperators
from hept.devices.determinism import deterministic
from hept.runs.folder import RunFolder
from hept.training.trainer import fit

INDEX, VALUES = torch.tensor([0, 0, 1]), torch.ones(3)


def collect(work, is_on):
    with deterministic(is_on), AtomicOperators() as found:
        work()
    return found.names


@pytest.mark.parametrize(
    ("work", "without", "with_it"),
    [
        (lambda: torch.zeros(2).index_add_(0, INDEX, VALUES), {"index_add"}, set()),
        (lambda: torch.zeros(2).scatter_add(0, INDEX, VALUES), {"scatter_add"}, set()),
        (lambda: torch.zeros(2, dtype=torch.int64).index_add_(0, INDEX, VALUES.long()), set(), set()),
        (lambda: torch.bincount(INDEX, weights=VALUES), {"bincount"}, {"bincount"}),
        (lambda: torch.bincount(INDEX), set(), set()),
        (lambda: VALUES.cumsum(0), {"cumsum"}, {"cumsum"}),
        (lambda: VALUES @ VALUES, set(), set()),
    ],
)
def test_which_operators_depend_on_the_order_of_threads(work, without, with_it):
    assert collect(work, is_on=False) == without
    assert collect(work, is_on=True) == with_it


def test_the_switch_is_put_back():
    assert not torch.are_deterministic_algorithms_enabled()
    with deterministic():
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] in (":4096:8", ":16:8")
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("task", ["tracking", "pileup"])
def test_a_run_on_a_cpu_gives_the_same_with_and_without(request, small_config, tmp_path, task):
    dataset = request.getfixturevalue(f"{task}_dataset")
    runs = [
        fit(small_config(f"{task}-demo", f"deterministic={is_on}", "epochs=1"), dataset, tmp_path / is_on).run
        for is_on in ("true", "false")
    ]
    losses = [[row["loss"] for row in RunFolder(run).read_rows("steps")] for run in runs]
    assert losses[0] == losses[1]
