"""Signals of batch systems: the run is saved after the step, and the same command continues it."""

import os
import signal
import subprocess
import sys

import pytest

from hept.runs.folder import RunFolder
from hept.training.interrupt import SIGNALS, Interrupt
from hept.training.saved_state import read_state
from hept.training.trainer import fit


class SignalAfter:
    """A progress listener that sends a signal after some steps."""

    def __init__(self, n_steps, number):
        self.left, self.number = n_steps, number

    def start(self, description, total, unit, *, done=0):
        pass

    def advance(self, steps=1, note=""):
        self.left -= steps
        if self.left == 0:
            os.kill(os.getpid(), self.number)

    def announce(self, line):
        pass

    def finish(self):
        pass


def losses(run):
    return [row["loss"] for row in RunFolder(run).read_rows("steps")]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_finishes_the_step_saves_and_stops(tracking_dataset, small_config, tmp_path, number):
    config, run = small_config(), tmp_path / "run"
    before = signal.getsignal(number)
    stopped = fit(config, tracking_dataset, run, progress=SignalAfter(3, number))
    assert signal.getsignal(number) == before
    assert (stopped.stopped, stopped.signal, stopped.steps) == ("interrupted", number, 3)
    assert read_state(run / "resume.pt")["position"]["step"] == 3
    # The same call continues the run, as in a requeued job.
    whole = fit(config, tracking_dataset, tmp_path / "whole")
    assert losses(fit(config, tracking_dataset, run).run) == losses(whole.run)
    assert (whole.stopped, whole.signal) == ("finished", None)


def test_a_signal_during_validation_stops_before_the_next_step(
    tracking_dataset, small_config, tmp_path, monkeypatch
):
    from hept.training import loop

    score = loop.score_split

    def interrupted(*arguments, **settings):
        os.kill(os.getpid(), signal.SIGTERM)
        return score(*arguments, **settings)

    monkeypatch.setattr(loop, "score_split", interrupted)
    stopped = fit(small_config(), tracking_dataset, tmp_path / "run")
    assert (stopped.signal, stopped.epochs, stopped.steps) == (signal.SIGTERM, 1, 4)


def test_what_is_ignored_stays_ignored():
    # nohup ignores SIGHUP on purpose.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupt.number == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_a_second_ctrl_c_stops_at_once():
    with Interrupt() as interrupt:
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert interrupt.number == signal.SIGUSR1
    with Interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(("minutes", "saved"), [("1e-9", 3), ("null", 0)])
def test_states_are_saved_by_the_clock(tracking_dataset, small_config, tmp_path, minutes, saved):
    class Stop(Exception):
        pass

    class StopAfter(SignalAfter):
        def advance(self, steps=1, note=""):
            self.left -= steps
            if self.left < 0:
                raise Stop

    config = small_config("tracking-demo", f"save_every_minutes={minutes}")
    with pytest.raises(Stop):
        fit(config, tracking_dataset, tmp_path / "run", progress=StopAfter(3, 0))
    assert read_state(tmp_path / "run" / "resume.pt")["position"]["step"] == saved


TERMINATED = """
import os, signal, sys
from hept.training import loop
step = loop.Training._step
def and_signal(self, *arguments):
    step(self, *arguments)
    if self.state.position.step == 3:
        os.kill(os.getpid(), signal.{name})
loop.Training._step = and_signal
from hept_cli.train import main
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGUSR1", 138), ("SIGINT", 130)])
def test_the_command_ends_with_the_documented_code_and_goes_on(
    tracking_dataset, small_config, tmp_path, name, code
):
    (tmp_path / "config.yaml").write_text(small_config().to_yaml())
    arguments = ["fit", tracking_dataset, "--preset", tmp_path / "config.yaml", "--out", tmp_path / "run"]
    arguments = [*map(str, arguments), "--no-report"]
    command = [sys.executable, "-c", TERMINATED.format(name=name), *arguments]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == code, first.stderr
    assert f"Go on with: hept-train fit --resume {tmp_path / 'run'}" in first.stdout.replace("\n", "")
    again = subprocess.run(
        [sys.executable, "-m", "hept", *arguments], capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert f"continuing the run in {tmp_path / 'run'}" in (again.stdout + again.stderr).replace("\n", "")
    assert len(losses(tmp_path / "run")) == 8
