"""Progress without a terminal, on a clock that the test turns."""

import threading

import pytest

from hepdata.progress import format_duration
from hepdata.progress_lines import Heartbeat, ProgressLines


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def begin(clock):
    """Makes lines about some work, and the list in which they arrive."""

    def make(total, done=0):
        written = []
        return ProgressLines("training", total, "step", done, clock=clock, write=written.append), written

    return make


def test_every_tenth_has_a_line_with_speed_and_time_left(begin, clock):
    lines, written = begin(40)
    for _ in range(40):
        clock.now += 2
        lines.advance(1, "loss 0.1")
    assert len(written) == 10
    assert written[0] == "training: 4/40, 0.5 steps/s, 1 min 12 s left loss 0.1"
    assert written[-1] == "training: 40/40, 0.5 steps/s, 0 s left loss 0.1"


def test_quick_work_has_few_lines(begin, clock):
    lines, written = begin(100)
    for _ in range(100):
        clock.now += 0.0625
        lines.advance(1, "")
    assert [line.split(",")[0] for line in written] == [
        "training: 32/100",
        "training: 64/100",
        "training: 96/100",
        "training: 100/100",
    ]


def test_a_minute_without_a_line_makes_one(begin, clock):
    lines, written = begin(1000)
    clock.now += 30
    lines.advance(3, "")
    assert lines.tick() == 30
    assert written == []
    clock.now += 30
    assert lines.tick() == 60
    assert written == ["training: 3/1000, 0.05 steps/s, 5 h 32 min left"]
    assert lines.tick() == 60
    assert len(written) == 1


def test_a_first_step_of_minutes_is_not_silent(begin, clock):
    lines, written = begin(1000)
    clock.now += 120
    lines.tick()
    assert written == ["training: 0/1000, 2 min so far, no step is done yet"]


def test_steps_of_an_earlier_call_say_nothing_about_the_speed(begin, clock):
    lines, written = begin(100, done=50)
    clock.now += 60
    lines.advance(1, "")
    lines.tick()
    assert written == ["training: 51/100, 0.0167 steps/s, 49 min left"]


def test_work_of_unknown_length_has_lines_too(begin, clock):
    lines, written = begin(0)
    lines.advance(5, "")
    clock.now += 60
    lines.tick()
    assert written == ["training: 5/0, 0.0833 steps/s, 0 s left"]


def test_the_heartbeat_ticks_while_the_work_is_held_up(begin, clock):
    lines, written = begin(10)
    has_slept_three_times = threading.Event()
    may_end = threading.Event()
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        clock.now += seconds
        if len(naps) < 4:
            return False
        has_slept_three_times.set()
        return may_end.wait()

    heartbeat = Heartbeat(lines.tick, sleep)
    assert has_slept_three_times.wait(60)
    assert naps == [60, 60, 60, 60]
    assert [line.split(", ")[1] for line in written] == ["1 min so far", "2 min so far", "3 min so far"]
    may_end.set()
    heartbeat.stop()


def test_a_stopped_heartbeat_has_no_thread():
    before = threading.active_count()
    heartbeat = Heartbeat(lambda: 1e6)
    heartbeat.stop()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.234, "0.23 s"),
        (42.3, "42 s"),
        (59.7, "1 min"),
        (260, "4 min 20 s"),
        (3 * 3600 + 300, "3 h 5 min"),
        (277 * 3600, "11 d 13 h"),
    ],
)
def test_durations_are_printed_for_people(seconds, text):
    assert format_duration(seconds) == text
