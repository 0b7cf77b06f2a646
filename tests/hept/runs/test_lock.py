"""Two writers of a run, and locks that dead processes left behind."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from hepdata.errors import InputError
from hept.runs.lock import lock_run
from hept.training.trainer import fit

HOLD = """
import sys
from pathlib import Path
from hept.runs.lock import lock_run
with lock_run(Path(sys.argv[1]), tell=print):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def hold():
    """Start a process that holds the lock of a run until its standard input is closed."""
    started = []

    def start(run):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_second_writer_is_refused_and_told_who_the_first_is(tracking_dataset, small_config, tmp_path, hold):
    run = tmp_path / "run"
    holder = hold(run)
    who = f"process {holder.pid} on {socket.gethostname()}"
    for _ in range(2):
        with pytest.raises(InputError, match=rf"run: found another training in progress \({who}\)"):
            fit(small_config(), tracking_dataset, run)
    assert not run.exists()
    (tmp_path / "link").symlink_to(run)
    with pytest.raises(InputError, match="expected one writer per run"):
        fit(small_config(), tracking_dataset, tmp_path / "link")
    holder.communicate()
    assert fit(small_config(), tracking_dataset, run).stopped == "finished"
    assert not list(tmp_path.glob(".*"))


def test_a_lock_that_a_dead_process_left_is_taken_over_and_named(tmp_path, hold):
    run = tmp_path / "run"
    holder = hold(run)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert len(list(tmp_path.glob(".run.*"))) == 2
    lines = []
    with lock_run(run, tell=lines.append):
        pass
    assert lines == [
        f"note: taking over the lock that process {holder.pid} on {socket.gethostname()} left behind "
        f"on {run}: that process has ended"
    ]
    assert not list(tmp_path.glob(".*"))


def test_the_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="broken"), lock_run(tmp_path / "run", tell=print):
        raise ValueError("broken")
    assert not list(tmp_path.iterdir())


def test_a_name_from_the_owner_file_cannot_steer_the_terminal(tmp_path):
    (tmp_path / ".run.owner").write_bytes(b"\x1b[2Jprocess 1\nerror: gone")
    lines = []
    with lock_run(tmp_path / "run", tell=lines.append):
        pass
    assert lines[0].isprintable()


def test_two_writers_in_one_process_are_two(tmp_path):
    with (
        lock_run(tmp_path / "run", tell=print),
        pytest.raises(InputError, match=rf"process {os.getpid()} on"),
        lock_run(tmp_path / "run", tell=print),
    ):
        pass
