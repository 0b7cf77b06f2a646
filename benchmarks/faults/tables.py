"""Mutated files of other readers: ACTS' CSV, ColliderML's Parquet, and tables of points in every format."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import uproot

import hepdata
import hept
from benchmarks.faults.damage import build_and_validate, mutate, spoil
from benchmarks.faults.kills import fresh
from benchmarks.faults.tally import Kind, Tally

ACTS = Path(__file__).parents[2] / "tests" / "data" / "acts-csv"
N_EVENTS, N_POINTS = 6, 40
SCHEMA = """\
task: showers
event: event
columns: {eta: {}, phi: {unit: rad, period: 2pi}, energy: {unit: GeV}, kind: {n_classes: 3}, shower: {}}
coordinates: [eta, phi]
features: [eta, {column: energy, compression: log}, kind]
target: {objective: pairs, label: shower}
symmetries: {angles: [phi], reversed: [eta]}
"""


def write_tables(folder: Path) -> dict[str, Path]:
    """The same points as a table in each format."""
    draw, n = np.random.default_rng(1), N_EVENTS * N_POINTS
    columns = {
        "event": np.repeat(np.arange(N_EVENTS), N_POINTS),
        "eta": draw.normal(size=n),
        "phi": draw.uniform(-3, 3, n),
        "energy": draw.exponential(size=n),
        "kind": draw.integers(0, 3, n),
        "shower": draw.integers(0, 5, n),
    }
    paths = {suffix: folder / f"table.{suffix}" for suffix in ("parquet", "csv", "h5", "root")}
    pq.write_table(pa.table(columns), paths["parquet"], row_group_size=100)
    pa_csv.write_csv(pa.table(columns), paths["csv"])
    with h5py.File(paths["h5"], "w") as file:
        for name, values in columns.items():
            file[name] = values
    with uproot.recreate(paths["root"]) as file:
        file["points"] = columns
    return paths


def write_colliderml(folder: Path) -> list[Path]:
    """Events in the layout of ColliderML: one row an event, one list a column."""
    draw = np.random.default_rng(2)
    r, phi = draw.uniform(30, 170, (2, 60)), draw.uniform(-3, 3, (2, 60))
    hits = {"x": r * np.cos(phi), "y": r * np.sin(phi), "z": draw.normal(0, 300, (2, 60))}
    hits |= {"volume_id": np.full((2, 60), 17), "layer_id": draw.integers(1, 5, (2, 60)) * 2}
    hits |= {"surface_id": draw.integers(1, 900, (2, 60)), "particle_id": draw.integers(0, 9, (2, 60))}
    momenta = dict(zip(("px", "py", "pz"), draw.normal(0, 3, (3, 2, 8)), strict=True))
    parts = {"tracker_hits": hits, "particles": {"particle_id": np.tile(np.arange(1, 9), (2, 1))} | momenta}
    paths = []
    for name, columns in parts.items():
        paths.append(folder / name / "events.parquet")
        paths[-1].parent.mkdir(parents=True)
        pq.write_table(pa.table({"event_id": [4, 7]} | {k: list(v) for k, v in columns.items()}), paths[-1])
    return paths


def build_acts(copy: Path) -> object:
    """Build from ACTS' files."""
    return hepdata.build_tracking(copy / "acts", copy / "out", detectors=copy / "acts/detectors.csv")


def build_colliderml(copy: Path) -> object:
    """Build from ColliderML's files."""
    return hepdata.build_tracking(copy / "colliderml", copy / "out", layers="all", pairs="none")


def build_points(copy: Path, name: str) -> object:
    """Build from a table of points."""
    return hepdata.build_table(copy / name, copy / "out", schema=copy / "schema.yaml")


def score(copy: Path) -> str:
    """Score a file of tracks."""
    hept.score(copy / "tracks.csv", copy / "all")
    return ""


def mutate_tables(folder: Path, share: float) -> Iterator[Tally]:
    """Mutated input of the other readers: refused, or built into a dataset that validates."""
    copy = fresh(folder)
    shutil.copytree(ACTS, copy / "acts")
    read_acts = partial(build_and_validate, build=build_acts)
    for path in sorted((copy / "acts").glob("event000000001-*.csv")):
        name = f"ACTS {path.stem.partition('-')[2]}.csv"
        yield spoil("mutated", name, path, mutate, read_acts, 50, share)
    read_colliderml = partial(build_and_validate, build=build_colliderml)
    for path in write_colliderml(copy / "colliderml"):
        name = f"ColliderML {path.parent.name}"
        yield spoil("mutated", name, path, mutate, read_colliderml, 100, share)
    (copy / "schema.yaml").write_text(SCHEMA)
    tables = write_tables(copy)
    for suffix, path in tables.items():
        read = partial(build_and_validate, build=partial(build_points, name=path.name))
        yield spoil("mutated", f"table of points (.{suffix})", path, mutate, read, 100, share)
    read = partial(build_and_validate, build=partial(build_points, name=tables["csv"].name))
    yield spoil("mutated", "schema (YAML)", copy / "schema.yaml", mutate, read, 150, share)


KINDS: dict[str, Kind] = {"tables": mutate_tables}
