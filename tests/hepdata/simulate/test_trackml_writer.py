import gzip
import hashlib

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.errors import InputError, JobError
from hepdata.simulate.trackml_writer import round_significant, simulate_files, write_event

COLUMNS = {
    "hits": "hit_id,x,y,z,volume_id,layer_id,module_id",
    "cells": "hit_id,ch0,ch1,value",
    "particles": "particle_id,vx,vy,vz,px,py,pz,q,nhits",
    "truth": "hit_id,particle_id,tx,ty,tz,tpx,tpy,tpz,weight",
}
DETECTORS = (
    "volume_id,layer_id,module_id,cx,cy,cz,rot_xu,rot_xv,rot_xw,rot_yu,rot_yv,rot_yw,rot_zu,rot_zv,rot_zw,"
    "module_t,module_minhu,module_maxhu,module_hv,pitch_u,pitch_v"
)


def digest(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("raw")
    simulate_files(out, n_events=3, hits_per_event=600, seed=5)
    return out


def test_files_have_the_challenges_names_and_headers(folder):
    expected = {f"event00000100{k}-{name}.csv" for k in range(3) for name in COLUMNS} | {"detectors.csv"}
    assert {path.name for path in folder.iterdir()} == expected
    for name, header in COLUMNS.items():
        assert (folder / f"event000001000-{name}.csv").read_text().split("\n", 1)[0] == header
    assert (folder / "detectors.csv").read_text().split("\n", 1)[0] == DETECTORS


def test_types_and_layers_are_those_of_the_challenge(folder):
    """By the description of the challenge's files: ids, channels, charges and counts are whole numbers."""
    whole = {"hit_id", "particle_id", *DETECTORS.split(",")[:3], "ch0", "ch1", "q", "nhits"}
    for name, header in COLUMNS.items():
        table = pd.read_csv(folder / f"event000001000-{name}.csv")
        for column in header.split(","):
            assert table[column].dtype == (np.int64 if column in whole else np.float64), column
    modules = pd.read_csv(folder / "detectors.csv")
    assert all(modules[column].dtype == np.int64 for column in whole & set(modules))
    layers = {(volume, layer) for volume in (7, 9) for layer in range(2, 15, 2)}
    layers |= {(8, layer) for layer in range(2, 9, 2)}
    assert set(zip(modules.volume_id, modules.layer_id, strict=True)) == layers


def test_columns_and_types_are_those_of_published_files(folder, real_file):
    for name in COLUMNS:
        real = pd.read_csv(real_file(f"data/acts/event000001001-{name}.csv.gz"))
        ours = pd.read_csv(folder / f"event000001000-{name}.csv")
        assert ours.dtypes.to_dict() == real.dtypes.to_dict()
        assert list(ours.columns) == list(real.columns)
    real = pd.read_csv(real_file("data/acts/detectors.csv.gz"))
    ours = pd.read_csv(folder / "detectors.csv")
    assert list(ours.columns) == list(real.columns)
    integers = [name for name in real if real[name].dtype == np.int64 and name.endswith("_id")]
    assert all(ours[name].dtype == np.int64 for name in integers)
    pixels = real[real.volume_id.isin([7, 8, 9])]
    layers = ["volume_id", "layer_id"]
    assert set(map(tuple, ours[layers].to_numpy())) == set(map(tuple, pixels[layers].to_numpy()))


def test_files_hold_the_event_to_six_digits_and_ids_to_the_last(tmp_path, event):
    write_event(tmp_path, event)
    for name in COLUMNS:
        path = tmp_path / f"event000001000-{name}.csv"
        for read in (pd.read_csv(path), pyarrow.csv.read_csv(path).to_pandas()):
            for column, values in getattr(event, name).items():
                if values.dtype == np.int64:
                    assert np.array_equal(read[column], values)
                else:
                    np.testing.assert_allclose(read[column], values, rtol=5.1e-6)
    fields = (tmp_path / "event000001000-truth.csv").read_text().split("\n")[1].split(",")
    assert all(len(field.lstrip("-0.").replace(".", "")) <= 7 for field in fields[2:])


def test_compressed_files_hold_the_same_text(tmp_path, folder):
    simulate_files(tmp_path, n_events=3, hits_per_event=600, seed=5, compress=True)
    assert len(list(tmp_path.iterdir())) == 13
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert gzip.decompress(content) == (folder / path.stem).read_bytes()
        assert content[4:8] == bytes(4)  # no time of writing: the same seed gives the same bytes tomorrow


@pytest.mark.parametrize("compress", [False, True])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path, compress):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        simulate_files(tmp_path / name, n_events=2, hits_per_event=500, seed=seed, compress=compress)
    a, b, c = (digest(tmp_path / name) for name in "abc")
    assert a == b
    assert a.keys() == c.keys()
    assert {name for name in a if a[name] == c[name]} == {f"detectors.csv{'.gz' if compress else ''}"}


def test_an_event_does_not_depend_on_how_many_or_where_one_begins(tmp_path, folder):
    simulate_files(tmp_path / "one", n_events=1, hits_per_event=600, seed=5)
    simulate_files(tmp_path / "last", n_events=1, hits_per_event=600, seed=5, first_event=1002)
    whole = digest(folder)
    for part in (digest(tmp_path / "one"), digest(tmp_path / "last")):
        assert part.items() <= whole.items()
        assert len(part) == 5


def test_the_summary_counts_what_was_written(tmp_path):
    summary = simulate_files(tmp_path, n_events=2, hits_per_event=500)
    hits, cells, particles, truth = (
        pd.concat([pd.read_csv(path) for path in tmp_path.glob(f"*-{name}.csv")])
        for name in ("hits", "cells", "particles", "truth")
    )
    assert (summary.n_events, summary.n_hits, summary.n_cells) == (2, len(hits), len(cells))
    assert summary.n_noise == (truth.particle_id == 0).sum()
    assert summary.n_particles == len(particles)
    assert summary.n_high_pt == (np.hypot(particles.px, particles.py) > 0.9).sum()
    assert summary.n_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


class Recorder:
    def __init__(self):
        self.calls = []

    def start(self, description, total, unit, *, done=0):
        self.calls.append(("start", total, unit))

    def advance(self, steps=1, note=""):
        self.calls.append(("advance", steps))

    def finish(self):
        self.calls.append(("finish",))


def test_progress_is_told_of_every_event(tmp_path):
    recorder = Recorder()
    simulate_files(tmp_path, n_events=2, hits_per_event=200, progress=recorder)
    assert recorder.calls == [("start", 2, "event"), ("advance", 1), ("advance", 1), ("finish",)]


def test_a_second_run_replaces_its_own_files_and_leaves_strangers_alone(tmp_path):
    simulate_files(tmp_path, n_events=1, hits_per_event=300, seed=1)
    (tmp_path / "notes.txt").write_text("mine")
    simulate_files(tmp_path, n_events=2, hits_per_event=300, seed=2)
    fresh = tmp_path.with_name(tmp_path.name + "-fresh")
    simulate_files(fresh, n_events=2, hits_per_event=300, seed=2)
    assert digest(fresh).items() <= digest(tmp_path).items()
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("event000000007-hits.csv", "event000000007-hits.csv, of another simulation or dataset"),
        ("event000001000-hits.csv.gz", "event000001000-hits.csv.gz, of another simulation or dataset"),
        ("detectors.csv", "detectors.csv of another detector"),
        ("detectors.csv.gz", "detectors.csv.gz of another detector"),
    ],
)
def test_a_folder_with_other_events_is_refused_untouched(tmp_path, name, found):
    (tmp_path / name).write_text("old")
    with pytest.raises(InputError, match=found):
        simulate_files(tmp_path, n_events=1, hits_per_event=300)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "raw").write_text("")
    with pytest.raises(InputError, match="raw: found a file; expected a folder"):
        simulate_files(tmp_path / "raw", n_events=1, hits_per_event=300)
    with pytest.raises(InputError, match="raw/sub: found a path where no folder can be created"):
        simulate_files(tmp_path / "raw" / "sub", n_events=1, hits_per_event=300)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n_events": 0}, "`events`: found 0"),
        ({"hits_per_event": 99}, "`hits_per_event`: found 99; expected a number from 100"),
        ({"seed": -1}, "`seed`: found -1"),
        ({"first_event": -1}, "`first_event`: found -1"),
        ({"first_event": 999_999_999, "n_events": 2}, "`first_event`: found 999999999"),
    ],
)
def test_numbers_out_of_range_are_refused_before_anything_is_written(tmp_path, arguments, name):
    with pytest.raises(InputError, match=name):
        simulate_files(tmp_path / "raw", **({"n_events": 1, "hits_per_event": 300} | arguments))
    assert not (tmp_path / "raw").exists()


def test_a_disk_that_refuses_is_a_failed_job(tmp_path):
    (tmp_path / ".event000001000-hits.csv.partial").mkdir()
    with pytest.raises(JobError, match="found a file that cannot be written"):
        simulate_files(tmp_path, n_events=1, hits_per_event=300)
    assert not (tmp_path / "event000001000-hits.csv").exists()


def test_hits_get_their_name_last(tmp_path):
    (tmp_path / "event000001000-truth.csv").mkdir()
    with pytest.raises(JobError, match="cannot be written"):
        simulate_files(tmp_path, n_events=1, hits_per_event=300)
    assert (tmp_path / "event000001000-cells.csv").is_file()
    assert not (tmp_path / "event000001000-hits.csv").exists()


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
@settings(max_examples=300)
def test_rounding_agrees_with_printing(value):
    # Halves may go either way: the two need only be within a digit of the decimal text, and be short.
    rounded = float(round_significant(np.array([value]))[0])
    if abs(value) < 1e-12:
        assert rounded == 0
    else:
        assert rounded == pytest.approx(float(f"{value:.6g}"), rel=1.01e-5)
        assert rounded == float(f"{rounded:.6g}")


def test_zero_and_negative_zero_are_plain_zero():
    assert [str(x) for x in round_significant(np.array([0.0, -0.0]))] == ["0.0", "0.0"]
