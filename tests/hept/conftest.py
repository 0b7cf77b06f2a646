"""Small datasets of both tasks, written as `hept-data build` writes them."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hepdata.cloud import PairList, PointCloud
from hepdata.schema import PILEUP, TRACKING
from hepdata.storage.dataset.finish import finish_dataset
from hepdata.storage.parquet.writer import write_shard

SPLITS = {"train": 4, "valid": 2, "test": 2}


def rows_of(matrix):
    ptr = np.concatenate([[0], matrix.sum(1).cumsum()]).astype(np.int32)
    return PairList(ptr, np.nonzero(matrix)[1].astype(np.int32))


def tracking_cloud(event_id, *, n_particles=25, n_noise=20):
    """Particles along straight lines from the origin, six hits each, and noise."""
    rng = np.random.default_rng([event_id, 1])
    eta, phi = rng.uniform(-2, 2, n_particles), rng.uniform(-3, 3, n_particles)
    layer = np.arange(6)
    columns = {
        "layer": np.tile(layer, n_particles),
        "eta": np.repeat(eta, 6) + rng.normal(0, 0.01, 6 * n_particles),
        "phi": np.repeat(phi, 6) + rng.normal(0, 0.01, 6 * n_particles),
        "particle_id": np.repeat(np.arange(1, n_particles + 1), 6) * 1000,
        "pt": np.repeat(rng.choice([0.3, 0.7, 1.5, 3.0], n_particles), 6),
        "particle_eta": np.repeat(eta, 6),
        "n_hits": np.full(6 * n_particles, 6),
        "n_layers_hit": np.full(6 * n_particles, 6),
    }
    noise = {name: np.zeros(n_noise) for name in columns}
    noise |= {"eta": rng.uniform(-2, 2, n_noise), "phi": rng.uniform(-3, 3, n_noise)}
    noise["layer"] = rng.integers(0, 6, n_noise)
    columns = {name: np.concatenate([values, noise[name]]) for name, values in columns.items()}
    n = len(columns["eta"])
    columns["r"] = 30.0 * (1 + columns["layer"])
    columns["z"] = columns["r"] * np.sinh(columns["eta"])
    columns["u"] = np.cos(columns["phi"]) / columns["r"]
    columns["v"] = np.sin(columns["phi"]) / columns["r"]
    columns["hit_id"] = np.arange(1, n + 1)
    columns["is_reconstructable"] = columns["particle_id"] > 0
    order = np.argsort(columns["eta"], kind="stable")
    whole = {
        column.name: columns.get(column.name, np.zeros(n))[order].astype(column.dtype)
        for column in TRACKING.columns
    }
    particle = whole["particle_id"]
    is_same = (particle[:, None] == particle) & (particle[:, None] > 0)
    is_near = np.abs(whole["eta"][:, None] - whole["eta"]) < 0.5
    np.fill_diagonal(is_near, False)
    positives = is_same & ~np.eye(n, dtype=bool)
    return PointCloud("tracking", event_id, 0, whole, rows_of(positives), rows_of(is_near & ~is_same))


def pileup_cloud(event_id, *, n_points=150):
    """One jet over a flat background; its charged particles show its direction."""
    rng = np.random.default_rng([event_id, 2])
    is_leading = rng.random(n_points) < 0.3
    eta = np.where(is_leading, rng.normal(1, 0.3, n_points), rng.uniform(-4, 4, n_points))
    phi = np.where(is_leading, rng.normal(0.5, 0.3, n_points), rng.uniform(-3.1, 3.1, n_points))
    pt = rng.exponential(2.0, n_points) + 0.5
    charge = rng.integers(-1, 2, n_points)
    columns = {
        "index_in_source": np.arange(n_points),
        "eta": eta,
        "phi": phi,
        "px": pt * np.cos(phi),
        "py": pt * np.sin(phi),
        "pt": pt,
        "energy": pt * np.cosh(eta),
        "rapidity": eta,
        "pid_class": np.where(charge != 0, 0, 1),
        "charge": charge,
        "is_scored": (charge == 0) & (pt > 0.9),
        "is_leading": is_leading,
        "vertex": np.where(charge == 0, 0, np.where(is_leading, 1, -1)),
        "hard_fraction": is_leading,
    }
    order = np.argsort(eta)
    return PointCloud(
        "pileup",
        event_id,
        0,
        {column.name: columns[column.name][order].astype(column.dtype) for column in PILEUP.columns},
    )


def write_dataset(out: Path, schema, make_cloud, splits=None):
    """Shards of one split each, and the manifest."""
    staging = out.with_suffix(".partial")
    staging.mkdir(parents=True)
    records, event_id = {}, 1
    for split, count in (splits or SPLITS).items():
        clouds = [make_cloud(event_id + i) for i in range(count)]
        event_id += count
        name = f"{split}-00000-of-00001.parquet"
        records[split] = [write_shard(staging / name, clouds, schema)] if clouds else []
    finish_dataset(staging, out, schema=schema, splits=records, configuration={})
    return out


@pytest.fixture(scope="session")
def tracking_dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data") / "tracking", TRACKING, tracking_cloud)


@pytest.fixture(scope="session")
def pileup_dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data") / "pileup", PILEUP, pileup_cloud)


@pytest.fixture
def make_dataset(tmp_path):
    """Write a tracking or pileup dataset with chosen splits, or clouds changed by a function."""

    def make(task="tracking", *, splits=None, change=lambda cloud: cloud, schema=None, name="made"):
        plain = tracking_cloud if task == "tracking" else pileup_cloud
        schema = schema or (TRACKING if task == "tracking" else PILEUP)
        return write_dataset(tmp_path / name, schema, lambda event_id: change(plain(event_id)), splits)

    return make


@pytest.fixture
def write_task(tmp_path):
    """Write a dataset of any schema, with clouds made by a function of the event number."""
    return lambda schema, make_cloud: write_dataset(tmp_path / schema.task, schema, make_cloud)


SMALL = [
    "model.n_layers=1",
    "model.hidden_dim=8",
    "model.n_heads=2",
    "model.block_size=20",
    "model.n_regions=9",
    "epochs=2",
]


@pytest.fixture
def small_config():
    """A preset shrunk to run in a second, with changes on top."""
    from hept.settings.load import load_config

    return lambda preset="tracking-demo", *changes: load_config(preset, [*SMALL, *changes])


@pytest.fixture
def interpret(request):
    """Run a function of `in_interpreter.py`, next to the test, in Triton's interpreter; return its result."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton")
    root = Path(__file__).parents[2]

    def run(name):
        done = subprocess.run(
            [sys.executable, str(request.path.with_name("in_interpreter.py")), name],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return run
