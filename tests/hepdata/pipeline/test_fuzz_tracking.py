"""Mutated event files: a build gives a message, or exactly what the files say; never anything else."""

import gzip
import io
import shutil
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError
from hepdata.features.layers import PIXEL_LAYERS
from hepdata.pipeline.tracking_source import PairChoice, TrackingConfig, open_tracking

CONFIG = TrackingConfig(pairs=PairChoice("paper", 16))
# Columns that no point depends on.
UNUSED = ("", "Unnamed: 0", "q", "nhits", "vx", "vy", "vz", "tx", "ty", "tz", "tpx", "tpy", "tpz")
PARTS = ("hits", "cells", "truth", "particles", "detectors")
FIELDS = (
    *(
        "",
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e400",
        "99999999999999999999",
        "abc",
        "0x10",
        "1.5",
        " 7",
        '"7"',
    ),
    *("1e3", "7", "2147483648", "1;2", "\x00", "é", "-0.0", "NULL", "1e-320", "+5", "1_0", "００"),
)


def mutate_bytes(content, rng):
    data = bytearray(content)
    place = int(rng.integers(len(data)))
    kind = rng.integers(4)
    if kind == 0:
        data[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del data[place : place + int(rng.integers(1, 40))]
    elif kind == 2:
        data[place:place] = rng.bytes(int(rng.integers(1, 6)))
    else:
        del data[place:]
    return bytes(data)


def mutate_lines(content, rng):
    lines = content.decode().split("\n")
    first, second = (int(i) for i in rng.integers(1, len(lines) - 1, 2))
    kind = rng.integers(5)
    if kind == 0:
        lines.insert(second, lines[first])
    elif kind == 1:
        del lines[first]
    elif kind == 2:
        lines[first], lines[second] = lines[second], lines[first]
    elif kind == 3:
        lines[first] = ""
    else:
        lines = [line + "\r" for line in lines]
    return "\n".join(lines).encode()


def mutate_field(content, rng):
    lines = content.decode().split("\n")
    row = int(rng.integers(1, len(lines) - 1))
    fields = lines[row].split(",")
    column = int(rng.integers(len(fields)))
    fields[column] = FIELDS[int(rng.integers(len(FIELDS)))]
    lines[row] = ",".join(fields)
    return "\n".join(lines).encode()


def mutate_header(content, rng):
    lines = content.decode().split("\n")
    names = lines[0].split(",")
    first, second = (int(i) for i in rng.integers(0, len(names), 2))
    kind = rng.integers(4)
    if kind == 0:
        names[first] += "x"
    elif kind == 1:
        del names[first]
    elif kind == 2:
        names[first] = names[second]
    else:
        names.insert(first, "extra")
    lines[0] = ",".join(names)
    return "\n".join(lines).encode()


MUTATIONS = (mutate_bytes, mutate_lines, mutate_field, mutate_field, mutate_field, mutate_header)


@lru_cache(maxsize=5)
def read_plainly(content):
    """A CSV file as Python itself reads its numbers."""
    table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False, skip_blank_lines=True)
    for name in table.columns:
        if name.endswith("_id") or name in ("ch0", "ch1"):
            table[name] = np.array([int(text) for text in table[name]], dtype=np.int64)
        elif name not in UNUSED:
            table[name] = [float(text) if text.strip() else np.nan for text in table[name]]
    return table


def expected_points(folder):
    """What the files say of every pixel hit, by pandas, in order of hit_id."""
    tables = {part: read_plainly((folder / f"event000000001-{part}.csv").read_bytes()) for part in PARTS[:4]}
    modules = read_plainly((folder / "detectors.csv").read_bytes())
    hits = tables["hits"].merge(modules, on=["volume_id", "layer_id", "module_id"], how="left")
    hits = hits.merge(tables["truth"][["hit_id", "particle_id"]], on="hit_id", how="left")
    particles = tables["particles"][["particle_id", "px", "py", "pz"]]
    hits = hits.merge(particles[particles.particle_id != 0], on="particle_id", how="left")
    cells = (
        tables["cells"]
        .groupby("hit_id")
        .agg(low=("ch0", "min"), high=("ch0", "max"), charge=("value", "mean"))
    )
    hits = hits.join(cells, on="hit_id")
    is_pixel = [pair in set(PIXEL_LAYERS) for pair in zip(hits.volume_id, hits.layer_id, strict=True)]
    hits = hits[is_pixel].sort_values("hit_id")
    return {
        "hit_id": hits.hit_id,
        "particle_id": hits.particle_id,
        "r": np.hypot(hits.x, hits.y),
        "z": hits.z,
        "phi": np.arctan2(hits.y, hits.x),
        "pt": np.hypot(hits.px, hits.py).fillna(0.0),
        "lx": (hits.high - hits.low + 1) * hits.pitch_u,
        "charge_frac": hits.charge,
    }


def check_mutation(folder, part, mutate, rng):
    """One mutation of one file, and the original put back."""
    path = folder / ("detectors.csv" if part == "detectors" else f"event000000001-{part}.csv")
    original = path.read_bytes()
    path.write_bytes(mutate(original, rng))
    try:
        try:
            source = open_tracking(folder, CONFIG)
            ((_, result),) = source.read_clouds(source.list_events())
        except HeptError as error:
            result = error
        if isinstance(result, HeptError):
            assert "\n" not in str(result)
            return "refused"
        compare(result, expected_points(folder))
        return "built"
    finally:
        path.write_bytes(original)


def compare(clouds, expected):
    (cloud,) = clouds
    assert isinstance(cloud, PointCloud)
    order = np.argsort(cloud.hit_id)
    for name, values in expected.items():
        ours = cloud.columns[name][order]
        if name == "phi":
            assert np.allclose(np.cos(ours - values), 1.0, atol=1e-9), name
        else:
            assert np.allclose(ours, values, rtol=1e-5, atol=1e-9), name
        assert np.isfinite(ours).all()


def fuzz(folder, n_rounds, seed):
    rng = np.random.default_rng(seed)
    outcomes = {"refused": 0, "built": 0}
    for _ in range(n_rounds):
        part, mutate = PARTS[rng.integers(len(PARTS))], MUTATIONS[rng.integers(len(MUTATIONS))]
        outcomes[check_mutation(folder, part, mutate, rng)] += 1
    return outcomes


@pytest.fixture
def simulated_event(trackml_events, tmp_path):
    for part in PARTS[:4]:
        shutil.copy(trackml_events / f"event000001000-{part}.csv", tmp_path / f"event000000001-{part}.csv")
    shutil.copy(trackml_events / "detectors.csv", tmp_path / "detectors.csv")
    return tmp_path


@pytest.fixture
def real_event(real_file, tmp_path):
    for path in real_file("data/trackml").iterdir():
        (tmp_path / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(path.read_bytes()))
    return tmp_path


def test_the_oracle_agrees_with_the_build_where_nothing_is_mutated(simulated_event):
    assert check_mutation(simulated_event, "hits", lambda content, _: content, None) == "built"


def test_mutated_simulated_files(simulated_event):
    outcomes = fuzz(simulated_event, 80, seed=1)
    assert min(outcomes.values()) > 10


def test_mutated_real_files(real_event):
    outcomes = fuzz(real_event, 12, seed=2)
    assert min(outcomes.values()) > 1


def test_mutated_compressed_streams(trackml_events, tmp_path):
    rng = np.random.default_rng(3)
    for part in PARTS:
        name = "detectors.csv" if part == "detectors" else f"event000001000-{part}.csv"
        target = "detectors.csv" if part == "detectors" else f"event000000001-{part}.csv"
        (tmp_path / f"{target}.gz").write_bytes(gzip.compress((trackml_events / name).read_bytes(), mtime=0))
    whole = open_tracking(tmp_path, CONFIG)
    ((_, expected),) = whole.read_clouds(whole.list_events())
    for _ in range(40):
        path = sorted(tmp_path.iterdir())[rng.integers(5)]
        original = path.read_bytes()
        path.write_bytes(mutate_bytes(original, rng))
        try:
            source = open_tracking(tmp_path, CONFIG)
            ((_, result),) = source.read_clouds(source.list_events())
        except HeptError as error:
            result = error
        if not isinstance(result, HeptError):
            # Only bytes that do not matter (the header's time or name) may change without a message.
            assert all((result[0].columns[n] == expected[0].columns[n]).all() for n in expected[0].columns)
        path.write_bytes(original)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 16))
def test_many_mutated_files(simulated_event, seed):
    fuzz(simulated_event, 1000, seed)
