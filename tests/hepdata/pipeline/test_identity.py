"""Checksums of the input that are found while the build runs: waited for at the end, given up on failure."""

import threading

import pytest

from hepdata.errors import InputError
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.identity import Identity, found_aside
from hepdata.pipeline.staging import staging_of
from hepdata.storage.dataset.own_files import is_marked, read_mark

FOUND = Identity({"a": 1}, [], "f" * 64)


class Listener:
    def __init__(self):
        self.heard = []

    def start(self, description, total, unit, *, done=0):
        self.heard.append((description, total, unit, done))

    def advance(self, steps=1, note=""):
        self.heard.append(steps)

    def finish(self):
        self.heard.append("end")


class SlowSource:
    """A source whose checksums take until they are released, in steps."""

    def __init__(self, source):
        self._source, self.may_end, self.n_steps = source, threading.Event(), 0

    def __getattr__(self, name):
        return getattr(self._source, name)

    def list_files(self, progress=None):
        progress.start("hashing", 10**9, "MB")
        while not self.may_end.wait(0.01):
            self.n_steps += 1
            progress.advance(1)
        progress.finish()
        return self._source.list_files()


def test_what_is_found_is_used_at_once_and_given_to_who_waits():
    used = []
    with found_aside(lambda _: FOUND, used.append) as wait:
        assert wait(Listener()) is FOUND
    assert used == [FOUND]


def test_progress_is_shown_to_who_waits_from_where_it_is():
    may_go_on, has_begun = threading.Event(), threading.Event()

    def find(progress):
        progress.start("hashing", 5, "MB")
        progress.advance(2)
        has_begun.set()
        may_go_on.wait(60)
        progress.advance(3)
        progress.finish()
        return FOUND

    class Releasing(Listener):
        def start(self, description, total, unit, *, done=0):
            super().start(description, total, unit, done=done)
            may_go_on.set()

    listener = Releasing()
    with found_aside(find, lambda _: None) as wait:
        assert has_begun.wait(60)
        wait(listener)
    assert listener.heard == [("hashing", 5, "MB", 2), 3, "end"]


def test_an_error_reaches_who_waits():
    def fail(progress):
        raise InputError("x", found="a", expected="b", remedy="c")

    with found_aside(fail, lambda _: None) as wait, pytest.raises(InputError, match="found a"):
        wait(Listener())


def test_a_build_is_done_before_its_checksums_and_the_same(tracking_source, tmp_path, same_bytes):
    source, out = SlowSource(tracking_source), tmp_path / "dataset"

    class Release(Listener):
        def finish(self):
            # All shards are written, and nothing says yet whose they are.
            signed.append(read_mark(staging_of(out)) is not None)
            source.may_end.set()

    signed = []
    build_dataset(source, out, progress=Release())
    assert signed[0] is False
    same_bytes(out)


def test_a_build_that_is_stopped_before_its_checksums_begins_anew(tracking_source, tmp_path, same_bytes):
    source, out = SlowSource(tracking_source), tmp_path / "dataset"

    class Stop(Listener):
        def advance(self, steps=1, note=""):
            super().advance(steps, note)
            if len(self.heard) > 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_dataset(source, out, progress=Stop())
    assert list(staging_of(out).glob("*.parquet.json"))
    assert is_marked(staging_of(out))
    assert read_mark(staging_of(out)) is None
    assert build_dataset(tracking_source, out).n_resumed == 0
    same_bytes(out)


def test_a_failure_before_the_checksums_leaves_nothing(trackml_copy, tmp_path):
    from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking

    (trackml_copy / "event000001003-truth.csv").unlink()
    source = SlowSource(open_tracking(trackml_copy, TRACKING_PRESETS["tracking-60k"]))
    with pytest.raises(InputError, match="event 1003"):
        build_dataset(source, tmp_path / "dataset")
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]
