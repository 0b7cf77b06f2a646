"""Fixtures for all tests: simulated events, small datasets, and real files for those who have them."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import settings

from hepdata.cloud import PairList, PointCloud
from hepdata.schema import SCHEMAS
from hepdata.storage.dataset.finish import finish_dataset
from hepdata.storage.dataset.names import name_shard
from hepdata.storage.parquet.writer import write_shard

if TYPE_CHECKING:
    import pandas as pd

# How long an example takes depends on what else the machine does.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")

# A shell that runs the tests in the background, or nohup, ignores signals that tests send to themselves.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)

# The number of threads is in the last digits of a training; it must not depend on what else the machine does.
os.environ.setdefault("HEPT_THREADS", "1")

REAL_FILES = Path(os.environ.get("HEPT_REAL_FILES") or Path(__file__).resolve().parents[2] / "shared")

# Not every machine has these files, so each test on them has a twin on simulated or hand-made ones.
_HEPT = "github.com/Graph-COM/HEPT"
_GOLDEN = f"numbers from running the published code ({_HEPT}) on"
# What a real file is and where a person without it finds it, by the beginning of its path.
_ORIGINS = {
    "data/trackml": "a TrackML event, event000000001-*.csv.gz, and detectors.csv.gz "
    "(public, MIT: tests/test_data/trackml of github.com/gnn-tracking/gnn_tracking)",
    "data/acts": "an event in the format of the TrackML challenge, and detectors.csv.gz "
    "(public: train_sample and detectors of kaggle.com/c/trackml-particle-identification, each file gzipped)",
    "data/colliderml": "10 tt̄ events of ColliderML's early layout, tracker_hits, particles and tracks "
    "(public: huggingface.co/datasets/OpenDataDetector/ColliderML_ttbar_pu0)",
    "data/delphes/coffea_delphes.root": "Delphes output without pileup "
    "(public, BSD-3: tests/samples/delphes.root of github.com/scikit-hep/coffea)",
    "data/delphes/ttbar_PU50": "6 tt̄ events with 50 pileup collisions (not published: simulate them with "
    "Delphes and Pythia, and write ParticleFlowCandidate and a GenParticle-class branch PF)",
    "data/checkpoint": f"the published weights (public, MIT: example/ckpt of {_HEPT})",
    "golden/event1": f"{_GOLDEN} the event of data/trackml: features, labels and pairs of its pixel hits",
    "golden/checkpoint": f"{_GOLDEN} 6,000 random points with the weights of data/checkpoint",
    "golden/metric": f"{_GOLDEN} 6,850 embeddings (src/utils/metrics.py)",
    "golden/loss": f"{_GOLDEN} embeddings of the event of data/trackml (src/utils/losses.py)",
}


@pytest.fixture(scope="session")
def real_file() -> Callable[[str], Path]:
    """Find a real file or folder by its path below the folder of real files, or skip the test."""

    def find(name: str) -> Path:
        origin = next(origin for beginning, origin in _ORIGINS.items() if name.startswith(beginning))
        path = REAL_FILES / name
        if not path.exists():
            pytest.skip(f"needs {name} in shared/ beside the checkout, or in $HEPT_REAL_FILES: {origin}")
        return path

    return find


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use real files, before pytest chooses tests by their marks."""
    for item in items:
        if "real_file" in getattr(item, "fixturenames", ()):
            item.add_marker("real_files")


@pytest.fixture(scope="session")
def trackml_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six simulated TrackML events of about 300 hits, 1000 to 1005, and detectors.csv; not to be changed."""
    from hepdata.simulate.trackml_writer import simulate_files

    folder = tmp_path_factory.mktemp("trackml")
    simulate_files(folder, n_events=6, hits_per_event=300, seed=5)
    return folder


@pytest.fixture
def trackml_copy(trackml_events: Path, tmp_path: Path) -> Path:
    """The same events to be damaged."""
    return Path(shutil.copytree(trackml_events, tmp_path / "raw"))


@pytest.fixture
def edit_csv() -> Callable[[Path, Callable[[pd.DataFrame], pd.DataFrame]], None]:
    """Rewrite a CSV file through pandas: `edit_csv(path, change)`."""
    import pandas as pd

    def edit(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        change(pd.read_csv(path)).to_csv(path, index=False)

    return edit


@pytest.fixture
def keep_hits(edit_csv) -> Callable[[Path, Callable[[pd.DataFrame], Iterable[int]]], None]:
    """Keep only hits that are chosen from the truth of their event: `keep_hits(folder, chosen)`."""
    import pandas as pd

    def keep(folder: Path, chosen: Callable[[pd.DataFrame], Iterable[int]]) -> None:
        for truth in sorted(folder.glob("*-truth.csv")):
            kept = set(chosen(pd.read_csv(truth)))
            for part in ("hits", "cells", "truth"):
                path = truth.with_name(truth.name.replace("truth", part))
                edit_csv(path, lambda table, kept=kept: table[table.hit_id.isin(kept)])

    return keep


@pytest.fixture
def write_delphes(tmp_path: Path) -> Callable[[int, dict[str, np.ndarray]], Path]:
    """Four events of n particles each as a Delphes file, with some leaves changed."""
    import awkward as ak
    import uproot

    def write(n: int, changes: dict[str, np.ndarray]) -> Path:
        events = [_draw_particles(n, seed) | changes for seed in range(4)]
        columns = {
            f"PF.{leaf}": ak.Array([np.asarray(event[leaf], _type_of_leaf(leaf)) for event in events])
            for leaf in events[0]
        }
        with uproot.recreate(tmp_path / "few.root") as file:
            tree = file.mktree(
                "Delphes",
                {name: values.type.content for name, values in columns.items()},
                counter_name=lambda name: f"n{name.replace('.', '_')}",
            )
            tree.extend(columns)
        return tmp_path / "few.root"

    return write


def _type_of_leaf(leaf):
    return np.int32 if leaf in ("Charge", "PID", "IsPU") else np.float32


def _draw_particles(n, seed):
    random = np.random.default_rng(seed)
    pid = random.choice([211, -211, 22, 130], n)
    return {
        "PT": random.gamma(2, 0.5, n) + 0.1,
        "Eta": random.uniform(-4, 4, n),
        "Phi": random.uniform(-3, 3, n),
        "Charge": np.where(np.abs(pid) == 211, np.sign(pid), 0),
        "PID": pid,
        "IsPU": np.arange(n) % 2,
    }


@pytest.fixture(scope="session")
def make_cloud():
    """A factory of small clouds that fit the schema of their task, pair lists included."""
    return _make_cloud


@pytest.fixture(scope="session")
def make_dataset():
    """A factory of small datasets on disk: `make_dataset(folder, task=…, rows={"train": [3, 2], …})`."""
    return _make_dataset


def _make_cloud(task="tracking", n_points=20, *, event_id=1, sector=0, pairs=None, seed=0):
    random = np.random.default_rng([seed, event_id, sector, n_points])
    columns = {}
    for column in SCHEMAS[task].columns:
        if column.dtype == "bool":
            columns[column.name] = random.random(n_points) < 0.5
        elif column.dtype == "float32":
            columns[column.name] = random.normal(size=n_points).astype(np.float32)
        else:
            columns[column.name] = random.integers(0, 5, n_points).astype(column.dtype)
    columns["phi"] = random.uniform(-np.pi, np.pi, n_points).astype(np.float32)
    if task == "tracking":
        # Ids of the size that TrackML has: they do not fit into a double.
        columns["particle_id"] *= 2**52 + 1
        columns["is_reconstructable"] = columns["particle_id"] > 0
        columns["hit_id"] = random.permutation(n_points).astype(np.int32) + 1
    else:
        columns["index_in_source"] = random.permutation(n_points).astype(np.int32)
    with_pairs = task == "tracking" if pairs is None else pairs
    lists = _pair_lists(columns["particle_id"]) if with_pairs else (None, None)
    return PointCloud(task, event_id, sector, columns, *lists)


def _pair_lists(particle_id):
    same = (particle_id[:, None] == particle_id[None, :]) & (particle_id[:, None] > 0)
    np.fill_diagonal(same, False)
    lists = []
    for matrix in (same, particle_id[:, None] != particle_id[None, :]):
        ptr = np.concatenate([[0], np.cumsum(matrix.sum(axis=1))]).astype(np.int32)
        lists.append(PairList(ptr, np.nonzero(matrix)[1].astype(np.int32)))
    return lists


def _make_dataset(folder, task="tracking", rows=None, *, file_format="parquet", pairs=None, first_event=0):
    rows = rows or {"train": [3, 2], "valid": [2], "test": [1]}
    staging = folder.with_name(folder.name + ".partial")
    staging.mkdir()
    event_id, splits = first_event, {}
    for split, parts in rows.items():
        splits[split] = []
        for i, n_clouds in enumerate(parts):
            events = range(event_id, event_id + n_clouds)
            clouds = [_make_cloud(task, 10 + 3 * event, event_id=event, pairs=pairs) for event in events]
            path = staging / name_shard(split, i, len(parts))
            splits[split].append(write_shard(path, clouds, SCHEMAS[task]))
            event_id += n_clouds
    return finish_dataset(
        staging,
        folder,
        schema=SCHEMAS[task],
        splits=splits,
        configuration={"made": "for a test"},
        file_format=file_format,
    )
