import pytest

from hept.runs.folder import RunFolder
from hept.training.expected_time import RunLength, describe_expected_time, expect_seconds
from hept.training.log import TrainingLog


def test_all_steps_where_nothing_limits_the_time():
    assert expect_seconds(RunLength(2000 * 128), 3.9) == pytest.approx(2000 * 128 * 3.9)
    line = describe_expected_time(RunLength(2000 * 128), 3.9)
    assert line == "expected time: about 11 d 13 h and validation (256,000 steps of 3.9 s)"


@pytest.mark.parametrize(
    ("seconds_per_step", "expected"),
    [
        (1.0, 660.0),
        (0.1, 200.0),  # over before the limit
    ],
)
def test_a_limit_ends_the_run(seconds_per_step, expected):
    length = RunLength(2000, max_minutes=11)
    assert expect_seconds(length, seconds_per_step) == pytest.approx(expected)


class Heard:
    def __init__(self):
        self.started, self.lines = None, []

    def start(self, description, total, unit, *, done=0):
        self.started = (total, done)

    def advance(self, steps=1, note=""):
        pass

    def announce(self, line):
        self.lines.append(line)

    def finish(self):
        pass


def test_the_line_comes_once_after_a_few_steps_and_leaves_the_first_out(tmp_path):
    now, heard = [0.0], Heard()
    log = TrainingLog(RunFolder(tmp_path), heard, is_quiet=False, clock=lambda: now[0])
    log.start(RunLength(90), done=10)
    assert heard.started == (100, 10)
    for step, seconds in enumerate([50, 1, 2, 3, 100, 100], start=11):
        now[0] += seconds
        log.step(step, 2, 0.5, 1e-3, 2.0, 100)
        assert len(heard.lines) == (step >= 14)
    log.finish()
    assert heard.lines == ["expected time: about 3 min and validation (90 steps of 2 s)"]


def test_other_processes_say_nothing(tmp_path):
    heard = Heard()
    log = TrainingLog(RunFolder(tmp_path), heard, is_quiet=True)
    log.start(RunLength(90), done=0)
    for step in range(6):
        log.step(step, 1, 0.5, 1e-3, 2.0, 100)
    assert (heard.started, heard.lines) == (None, [])
