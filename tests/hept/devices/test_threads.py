import os
import subprocess
import sys

import pytest
import torch

from hepdata.errors import InputError
from hept.devices.threads import choose_threads, count_idle, share_out, use_threads

CPU = torch.device("cpu")


@pytest.fixture(params=[1, 2, 4])
def n_threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("n_pieces", [0, 1, 3, 10])
def test_every_piece_is_done_once(n_threads, n_pieces):
    done = []
    share_out(done.extend, n_pieces, CPU)
    assert sorted(done) == list(range(n_pieces))


def test_threads_share_the_cores_and_the_modes_of_the_caller(n_threads):
    seen = []

    def look(_):
        seen.append(
            (
                torch.get_num_threads(),
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
            )
        )

    with torch.inference_mode():
        share_out(look, 4, CPU)
    assert seen == [(1, False, True)] * n_threads
    assert torch.get_num_threads() == n_threads


def test_an_error_reaches_the_caller(n_threads):
    def fail(pieces):
        if 2 in pieces:
            raise ValueError("piece 2")

    with pytest.raises(ValueError, match="piece 2"):
        share_out(fail, 4, CPU)
    assert torch.get_num_threads() == n_threads


@pytest.mark.parametrize(
    ("busy", "allowed", "expected"),
    [
        ([0, 0], 2, 2),
        ([0.1, 0.1], 2, 2),  # what a machine does by itself
        ([1, 0], 2, 1),
        ([1, 1], 2, 1),
        ([0.5, 0.5], 2, 1),
        ([0] * 64, 4, 4),  # a quota of 4 cores
        ([1] * 60 + [0] * 4, 64, 4),
        ([], 1, 1),
    ],
)
def test_as_many_threads_as_idle_cores(busy, allowed, expected):
    assert count_idle(busy, allowed=allowed) == expected


@pytest.fixture
def no_variables(monkeypatch):
    for name in ("HEPT_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_argument_precedes_hept_threads_and_omp_num_threads(no_variables):
    no_variables.setenv("OMP_NUM_THREADS", "5,2")
    assert choose_threads() == 5
    no_variables.setenv("HEPT_THREADS", "3")
    assert choose_threads() == 3
    assert choose_threads(7) == 7


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_an_invalid_number_of_threads_is_refused(no_variables, value):
    no_variables.setenv("HEPT_THREADS", value)
    with pytest.raises(InputError, match=f"HEPT_THREADS: found '{value}'; expected a number of threads"):
        choose_threads()


def test_cores_are_left_to_others(no_variables):
    everything = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert 1 <= choose_threads() <= everything
    assert choose_threads(reserved=everything) == choose_threads(processes=everything + 1) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity exists only on Linux")
def test_a_process_bound_to_one_core_uses_one_thread(no_variables):
    core = min(os.sched_getaffinity(0))
    bind = f"import os; os.sched_setaffinity(0, [{core}])"
    code = f"{bind}; from hept.devices.threads import choose_threads; print(choose_threads())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with use_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before

    def fail():
        with use_threads(before + 1):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("imported", "user", "expected"),
    [
        ("hept", {}, "10000"),
        ("hepdata.loader.batch", {}, "10000"),
        ("hept", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("hept", {"OMP_WAIT_POLICY": "active"}, "None"),
    ],
)
def test_spinning_is_limited_before_torch_is_there(imported, user, expected):
    code = f"""
import os, sys
sys.addaudithook(lambda event, args: print(os.environ.get("GOMP_SPINCOUNT"))
    if event == "import" and args[0] == "torch" else None)
import {imported}
import torch
"""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment | user
    )
    assert done.stdout.split()[0] == expected
