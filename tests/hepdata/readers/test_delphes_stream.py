"""Streams: every entry once and in order whatever the step, baskets decompressed once, damage contained."""

import os
import signal
import weakref
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.errors import HeptError, InputError
from hepdata.pipeline.pileup_source import PileupSource, with_changes
from hepdata.readers.delphes import survey_tree
from hepdata.readers.delphes_presets import choose_branches
from hepdata.readers.delphes_stream import EventStream, _choose_range, stream_of
from hepdata.readers.delphes_survey import LabelCounts, count_labels


def open_stream(path, step_bytes=10**8):
    survey = survey_tree(str(path))
    branches = choose_branches("auto", survey.contents, survey.classes, path)
    return EventStream(str(path), branches, labelled=True, step_bytes=step_bytes)


@pytest.mark.parametrize("step_bytes", [1, 30_000, 100_000, 10**8])
def test_any_step_gives_the_same_events(pileup_file, step_bytes):
    expected = uproot.open(pileup_file)["Delphes"]["PF.PT"].array()[2:11]
    tables = list(open_stream(pileup_file, step_bytes).read(2, 11))
    assert [table.first for table in tables[1:]] == [table.stop for table in tables[:-1]]
    assert (tables[0].first, tables[-1].stop) == (2, 11)
    np.testing.assert_array_equal(
        np.concatenate([table.columns["pt"] for table in tables]), np.concatenate([*expected])
    )


def test_small_steps_make_small_tables(pileup_file):
    sizes = [table.stop - table.first for table in open_stream(pileup_file, 1).read(0, 12)]
    assert sizes == [1] * 12


def test_a_basket_is_read_once_for_neighbouring_ranges(pileup_file, monkeypatch):
    stream = open_stream(pileup_file)
    read = []
    whole = stream._read
    monkeypatch.setattr(stream, "_read", lambda begin, end: read.append((begin, end)) or whole(begin, end))
    for start in (0, 3, 6, 9):
        list(stream.read(start, start + 3))
    # The simulation writes ten events to a basket.
    assert read == [(0, 10), (10, 12)]


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=6, unique=True),
    st.integers(0, 29),
    st.integers(1, 30),
    st.integers(1, 12),
)
def test_ranges_cover_the_next_entry_and_fit_a_step(inner, at, length, most):
    borders = sorted({0, 31, *inner})
    stop = min(at + length, 31)
    if at >= stop:
        return
    begin, end = _choose_range(borders, at, stop, most)
    assert begin <= at < end
    assert end - begin <= most
    assert begin == at or begin in borders
    assert end in borders or end - begin == most or end == stop


def test_damage_costs_only_the_events_that_it_hits(write_delphes, make_particles, tmp_path):
    path = tmp_path / "damaged.root"
    names = ("PT", "Eta", "Phi", "Charge", "IsPU")
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree("Delphes", {f"PF.{name}": "var * float32" for name in names})
        for seed in range(4):
            particles = make_particles(500, seed)
            tree.extend({f"PF.{name}": ak.Array([np.float32(particles[name])]) for name in names})
    branch = uproot.open(path)["Delphes"]["PF.Eta"]
    seek = int(branch.member("fBasketSeek")[2])
    content = bytearray(path.read_bytes())
    content[seek + 100 : seek + 400] = bytes(300)
    path.write_bytes(content)
    answers = list(open_stream(path).read(0, 4))
    assert [isinstance(answer, HeptError) for answer in answers] == [False, False, True, False]
    assert answers[2].where == "damaged.root, entry 2"
    np.testing.assert_allclose(answers[3].columns["pt"], make_particles(500, 3)["PT"], rtol=1e-6)


def test_damage_does_not_keep_a_sample_from_being_judged(write_delphes, make_particles, tmp_path):
    path = write_delphes({"PF": [make_particles(900, seed) for seed in range(3)]}, compression=uproot.ZLIB(1))
    branch = uproot.open(path)["Delphes"]["PF.IsPU"]
    seek = int(branch.member("fBasketSeek")[0])
    content = bytearray(Path(path).read_bytes())
    content[seek + 90 : seek + 110] = bytes(20)
    Path(path).write_bytes(content)
    survey = survey_tree(path)
    branches = choose_branches("auto", survey.contents, survey.classes, path)
    assert count_labels(path, branches, survey.contents, 100) == LabelCounts()
    answers = list(open_stream(path).read(0, 3))
    assert all(isinstance(answer, InputError) for answer in answers)
    assert len(answers) == 3


def test_one_stream_per_thread_until_something_changes(pileup_file, tmp_path):
    copy = tmp_path / "copy.root"
    copy.write_bytes(pileup_file.read_bytes())
    survey = survey_tree(str(copy))
    branches = choose_branches("auto", survey.contents, survey.classes, copy)
    first = stream_of(str(copy), branches, labelled=True, step_bytes=10**6)
    assert stream_of(str(copy), branches, labelled=True, step_bytes=10**6) is first
    assert stream_of(str(copy), branches, labelled=False, step_bytes=10**6) is not first
    second = stream_of(str(copy), branches, labelled=True, step_bytes=10**6)
    copy.write_bytes(pileup_file.read_bytes() + b"\0")
    assert stream_of(str(copy), branches, labelled=True, step_bytes=10**6) is not second


def test_a_file_that_went_away(pileup_file, tmp_path):
    survey = survey_tree(str(pileup_file))
    branches = choose_branches("auto", survey.contents, survey.classes, pileup_file)
    with pytest.raises(InputError, match="no such file"):
        stream_of(str(tmp_path / "gone.root"), branches, labelled=True, step_bytes=10**6)


def test_no_more_than_two_tables_are_alive(pileup_file):
    alive = []
    stream = open_stream(pileup_file, 1)
    whole = stream._read

    def read(begin, end):
        table = whole(begin, end)
        alive.append(weakref.ref(table))
        return table

    stream._read = read
    for table in stream.read(0, 12):
        del table
        assert sum(one() is not None for one in alive) <= 2
    assert len(alive) == 12


def test_a_reading_that_is_given_up_does_not_disturb_the_next(pileup_file):
    stream = open_stream(pileup_file, 1)
    given_up = stream.read(0, 12)
    assert next(given_up).first == 0
    given_up.close()
    assert [table.first for table in stream.read(5, 8)] == [5, 6, 7]


def test_readings_of_two_files_take_turns(pileup_file, tmp_path):
    """The second file replaces the first as the one that is kept; both readings go on."""
    copy = tmp_path / "copy.root"
    copy.write_bytes(pileup_file.read_bytes())
    survey = survey_tree(str(copy))
    branches = choose_branches("auto", survey.contents, survey.classes, copy)

    def read(path):
        yield from stream_of(str(path), branches, labelled=True, step_bytes=1).read(0, 12)

    pairs = list(zip(read(pileup_file), read(copy), strict=True))
    assert [(a.first, b.first) for a, b in pairs] == [(i, i) for i in range(12)]


def test_a_forked_process_opens_the_file_itself(pileup_file):
    survey = survey_tree(str(pileup_file))
    branches = choose_branches("auto", survey.contents, survey.classes, pileup_file)

    def count():
        stream = stream_of(str(pileup_file), branches, labelled=True, step_bytes=1)
        return sum(len(table.columns["pt"]) for table in stream.read(0, 12))

    expected = count()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if count() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_flipped_bit_in_the_number_of_entries_of_a_branch(write_delphes, make_particles):
    """The member that uproot compares with the baskets: found by its value, changed in every branch."""
    n_events = 1237
    path = Path(write_delphes({"PF": [make_particles(3, seed) for seed in range(n_events)]}))
    content = path.read_bytes()
    count = n_events.to_bytes(8, "big")
    refusals = 0
    at = content.find(count)
    while at >= 0:
        damaged = bytearray(content)
        damaged[at + 2] ^= 0x80
        path.write_bytes(damaged)
        try:
            source = PileupSource.open([str(path)], with_changes("pileup-10k"))
            for _, answer in source.read_clouds(source.list_events()[:3]):
                refusals += isinstance(answer, HeptError)
        except HeptError:
            refusals += 1
        at = content.find(count, at + 1)
    assert refusals > 10
