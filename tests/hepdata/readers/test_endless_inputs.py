"""Pipes and devices in place of raw files are refused at once; so are event numbers that cannot be stored."""

import os
from pathlib import Path

import pytest

from hepdata.errors import InputError
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.pileup_source import PileupSource, with_changes
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking

SIXTY = TRACKING_PRESETS["tracking-60k"]


@pytest.mark.parametrize("part", ["hits", "cells", "truth", "particles"])
def test_a_pipe_as_part_of_an_event(trackml_copy, tmp_path, part):
    path = trackml_copy / f"event000001002-{part}.csv"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match=rf"event000001002-{part}\.csv: found a pipe, a device or a folder"):
        build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "out")


@pytest.mark.parametrize("what", ["pipe", "device"])
def test_the_whole_input_or_the_detector(trackml_copy, tmp_path, what):
    endless = Path("/dev/zero") if what == "device" else tmp_path / "pipe"
    if what == "pipe":
        os.mkfifo(endless)
    with pytest.raises(InputError, match="found a pipe, a device or a folder"):
        open_tracking(endless, SIXTY)
    with pytest.raises(InputError, match="found a pipe, a device or a folder"):
        open_tracking(trackml_copy, SIXTY, detectors=endless)
    with pytest.raises(InputError, match="found a pipe, a device or a folder"):
        PileupSource.open([str(endless)], with_changes("pileup-10k"))


@pytest.mark.parametrize("number", ["9223372036854775808", "1" * 100, "1" * 200])
def test_event_numbers_beyond_64_bits(trackml_copy, number):
    for part in ("hits", "cells", "truth", "particles"):
        path = trackml_copy / f"event000001002-{part}.csv"
        path.rename(trackml_copy / f"event{number}-{part}.csv")
    with pytest.raises(InputError, match=f"found the event number {number[:19]}.*64-bit integer"):
        open_tracking(trackml_copy, SIXTY)


def test_the_largest_event_number_is_stored(trackml_copy, tmp_path):
    for part in ("hits", "cells", "truth", "particles"):
        path = trackml_copy / f"event000001005-{part}.csv"
        path.rename(trackml_copy / f"event{2**63 - 1}-{part}.csv")
    assert build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "out").n_events == 6
