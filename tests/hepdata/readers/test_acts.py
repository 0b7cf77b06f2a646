from __future__ import annotations

import importlib.util
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hepdata
import hept
from hepdata.errors import InputError
from hepdata.readers.acts import pack_barcodes, read_acts_event
from hepdata.readers.acts_detector import read_acts_detector
from hepdata.readers.trackml_files import RawFile, find_events

DATA = Path(__file__).parents[2] / "data"
FIELDS = ["pv", "sv", "part", "gen", "subpart"]


def write_by_acts(out: Path) -> None:
    """A new sample from the installed pyacts."""
    spec = importlib.util.spec_from_file_location("make_acts_fixture", DATA / "make_acts_fixture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_sample(out, n_events=3, n_particles=12, seed=7)


@pytest.fixture(scope="module", params=["committed", "pyacts"])
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "committed":
        return DATA / "acts-csv"
    pytest.importorskip("acts", reason="needs pyacts: pip install 'hept[acts]'")
    out = tmp_path_factory.mktemp("acts-csv")
    write_by_acts(out)
    return out


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The committed sample, to break."""
    return Path(shutil.copytree(DATA / "acts-csv", tmp_path / "raw"))


def table(raw: Path, event: int, name: str) -> pd.DataFrame:
    return pd.read_csv(raw / f"event{event:09d}-{name}.csv")


def read(raw: Path, event: int = 0, **choice: bool):
    files = find_events(raw)[event]
    assert files.is_acts
    return read_acts_event(files, **({"with_cells": True, "with_truth": True} | choice))


def test_hits_have_the_module_and_truth_of_their_simulated_hit(sample):
    modules = pd.read_csv(sample / "detectors.csv")
    for number in range(2):
        event = read(sample, number)
        simulated = table(sample, number, "hits")
        links = table(sample, number, "measurement-simhit-map").drop_duplicates("measurement_id")
        truth = simulated.iloc[links.set_index("measurement_id").hit_id[event.hits["hit_id"]]]
        assert len(truth) > 50
        # Volume, layer and module as ACTS' own geometry file names them
        named = truth[["geometry_id"]].merge(modules, on="geometry_id", how="left")
        for name in ("volume_id", "layer_id", "module_id"):
            np.testing.assert_array_equal(event.hits[name], named[name])
        distance = np.linalg.norm([event.hits[a] - truth[f"t{a}"] for a in "xyz"], axis=0)
        distance = distance[event.hits["volume_id"] < 10]
        assert distance.max() < 1
        assert np.median(distance) < 0.03  # pixels of 50 µm
        # The barcode comes back out of particle_id.
        for name, shift, bits in zip(FIELDS, (52, 40, 24, 16, 0), (11, 12, 16, 8, 16), strict=True):
            expected = truth[f"particle_id_{name}"]
            np.testing.assert_array_equal(event.particle_id >> shift & (1 << bits) - 1, expected)
        assert (event.weight == 1).all()


def test_particles_are_those_of_the_file(sample):
    event = read(sample)
    expected = table(sample, 0, "particles")
    assert len(event.particles["particle_id"]) == len(expected)
    np.testing.assert_array_equal(np.sort(event.particles["px"]), np.sort(expected.px))
    assert (np.diff(event.particles["particle_id"]) > 0).all()


def test_cells_are_those_of_the_file(sample):
    event = read(sample)
    expected = table(sample, 0, "cells").sort_values("measurement_id", kind="stable")
    np.testing.assert_array_equal(event.cells["hit_id"], expected.measurement_id)
    np.testing.assert_array_equal(event.cells["ch0"], expected.channel0)
    np.testing.assert_array_equal(event.cells["ch1"], expected.channel1)
    np.testing.assert_allclose(event.cells["value"], expected.value)


def test_cells_lie_where_their_hit_was_measured(sample):
    """ACTS' own local positions against channels and pitches: the pitches are those of the digitization."""
    event = read(sample)
    detector = read_acts_detector(
        RawFile(None, str(sample / "detectors.csv")), RawFile(None, str(next(sample.glob("digi*.json"))))
    )
    module = detector.find_modules(event.hits, "event")
    measured = table(sample, 0, "measurements").set_index("measurement_id")
    cells = pd.DataFrame(dict(event.cells))
    spread = cells.groupby("hit_id")[["ch0", "ch1"]].agg(["min", "max"])
    grid = json.loads(next(sample.glob("digi*.json")).read_text())["entries"]
    corner = {
        entry["volume"]: [axis["min"] for axis in entry["value"]["geometric"]["segmentation"]["binningdata"]]
        for entry in grid
    }
    low = np.array([corner[volume] for volume in event.hits["volume_id"].tolist()])
    for axis, (channel, local) in enumerate((("ch0", "local0"), ("ch1", "local1"))):
        at = measured[local].loc[event.hits["hit_id"]].to_numpy() - low[:, axis]
        pitch = detector.pitch[module, axis]
        assert (at >= spread[channel, "min"].to_numpy() * pitch - 1e-3).all()
        assert (at <= (spread[channel, "max"].to_numpy() + 1) * pitch + 1e-3).all()


def test_a_dataset_is_built_of_a_folder_and_of_a_zip(sample, tmp_path):
    built = hepdata.build_tracking(
        sample, tmp_path / "a", layers="pixel+strip", split="train=0,valid=1,test=2-9", workers=1
    )
    cloud = built["train"][0]
    assert cloud.n_points == len(table(sample, 0, "measurements"))
    assert {"lx", "geta", "charge_frac"} <= set(cloud.columns)
    pt = np.hypot(*(table(sample, 0, "particles")[name] for name in ("px", "py")))
    np.testing.assert_allclose(np.unique(cloud.pt), np.unique(pt.astype(np.float32)), rtol=1e-6)
    archive = tmp_path / "sample.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sample.iterdir():
            file.write(path, path.name)
    zipped = hepdata.build_tracking(
        archive, tmp_path / "b", layers="pixel+strip", split="train=0,valid=1,test=2-9", workers=1
    )
    np.testing.assert_array_equal(zipped["train"][0].lx, cloud.lx)


def test_raw_events_become_tracks(tmp_path):
    built = hepdata.build_tracking(
        DATA / "acts-csv", tmp_path / "a", layers="pixel+strip", split="train=0,valid=1", workers=1
    )
    run = hept.fit(built, tmp_path / "run", preset="tracking-demo", settings={"epochs": 1})
    options = {"method": "tree", "threads": 1, "device": "cpu", "layers": "pixel+strip"}
    found = hept.find_raw_tracks(run, DATA / "acts-csv", tmp_path / "tracks.csv", **options)
    expected = {(c.event_id, h) for part in built.splits for c in built[part] for h in c.hit_id.tolist()}
    rows = pd.read_csv(tmp_path / "tracks.csv")
    assert set(zip(rows.event_id, rows.hit_id, strict=True)) == expected
    assert found.n_hits == len(expected)


def test_every_layer_of_the_geometry_is_numbered(sample, tmp_path):
    built = hepdata.build_tracking(sample, tmp_path / "a", layers="all", cell_features=False, workers=1)
    modules = pd.read_csv(sample / "detectors.csv").query("module_id > 0")
    layers = sorted(set(zip(modules.volume_id, modules.layer_id, strict=True)))
    cloud = built["train"][0]
    for volume, layer, number in zip(cloud.volume_id, cloud.layer_id, cloud.layer, strict=True):
        assert layers[number] == (volume, layer)


def test_without_truth_a_dataset_is_unlabelled(copy, tmp_path):
    for path in copy.glob("*"):
        if path.stem.endswith(("-hits", "-particles", "-map")):
            path.unlink()
    built = hepdata.build_tracking(copy, tmp_path / "a", workers=1)
    assert "particle_id" not in built["train"][0].columns


def test_files_without_a_last_line_end_are_read_where_their_ids_agree(copy):
    whole = read(copy)
    for path in copy.glob("event000000000-*.csv"):
        path.write_bytes(path.read_bytes()[:-1])
    ended = read(copy)
    assert all((whole.hits[name] == ended.hits[name]).all() for name in whole.hits)
    assert (whole.particle_id == ended.particle_id).all()
    with pytest.raises(InputError, match=r"measurements.csv: found a last line without a line end"):
        read(copy, with_cells=False, with_truth=False)


def test_the_finest_entry_of_a_digitization_counts(copy):
    path = copy / "digitization.json"
    content = json.loads(path.read_text())
    base = next(entry for entry in content["entries"] if entry["volume"] == 8)
    finer = json.loads(json.dumps(base)) | {"layer": 4}
    finer["value"]["geometric"]["segmentation"]["binningdata"][0]["bins"] *= 2
    content["entries"].insert(0, finer)
    path.write_text(json.dumps(content))
    detector = read_acts_detector(RawFile(None, str(copy / "detectors.csv")), RawFile(None, str(path)))
    places = [(int(key) >> 48, int(key) >> 32 & 0xFFFF) for key in detector.key]
    barrel = {place: detector.pitch[row, 0] for row, place in enumerate(places) if place[0] == 8}
    assert barrel == {
        place: pytest.approx(0.025 if place[1] == 4 else 0.05) for place in barrel
    }  # 16.8 mm in 672 and in 336 cells


def edit(path: Path, change) -> None:
    frame = pd.read_csv(path, dtype=str)
    change(frame).to_csv(path, index=False)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "measurements",
            lambda t: t.assign(geometry_id="360288038909116416"),
            r"hit 0 in module 5/1/0 .* lacks",
        ),
        ("measurements", lambda t: t.drop(columns="global_x"), r"no column 'global_x'"),
        ("measurements", lambda t: t.iloc[:0], r"no measurements"),
        ("measurements", lambda t: pd.concat([t, t.iloc[:1]]), r"measurement_id 0 twice"),
        ("cells", lambda t: t[t.measurement_id != "3"], r"no cells for hit 3 "),
        ("measurement-simhit-map", lambda t: t[t.measurement_id != "3"], r"no truth for hit 3 "),
        ("measurement-simhit-map", lambda t: t.assign(hit_id="5000"), r"simulated hit 5000, and 99 rows in"),
        ("particles", lambda t: t.iloc[1:], r"no particle \d+, which the truth file names"),
        ("hits", lambda t: t.assign(particle_id_pv="2048"), r"column 'particle_id_pv', line 2: found 2048"),
    ],
)
def test_damage_is_named(copy, tmp_path, name, change, message):
    for number in range(2):
        edit(copy / f"event{number:09d}-{name}.csv", change)
    with pytest.raises(InputError, match=message):
        hepdata.build_tracking(copy, tmp_path / "out", layers="pixel+strip", workers=1, on_error="fail")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), r"0 digitization configurations .* give `cell_features=False`"),
        (
            lambda path: path.write_text(path.read_text().replace("equidistant", "arbitrary")),
            r"no cells \(ValueError: cells of unequal size\)",
        ),
        (
            lambda path: path.write_text('{"digitization-configuration": 1}'),
            r"no cells \(KeyError: 'entries'\)",
        ),
        (
            lambda path: path.write_text(path.read_text().replace('"volume": 8', '"volume": 80')),
            r"no cells of volume 8, layer 2",
        ),
    ],
)
def test_cells_of_unknown_size_are_refused(copy, tmp_path, change, message):
    change(copy / "digitization.json")
    with pytest.raises(InputError, match=message):
        hepdata.build_tracking(copy, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()


def test_barcodes_are_packed_as_in_the_challenge():
    columns = {
        f"particle_id_{name}": np.array([value]) for name, value in zip(FIELDS, (1, 2, 3, 4, 5), strict=True)
    }
    assert pack_barcodes(columns)[0] == int(
        "0000000000010000000000100000000000000011000001000000000000000101", 2
    )
