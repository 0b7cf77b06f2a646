"""Reading clouds: against per-event pickles with torch.load, and against pyarrow and h5py alone.

Both sides read the same simulated clouds of the size of Tracking-6k, with pairs of the published definition,
from a warm cache, in one process, in turns (`benchmarks.turns`).

torch.load, with default arguments, reads every tensor of the published layout, which
`benchmarks.published_files` writes: features, labels, a neighbour graph, and all pairs as two 64-bit numbers.

Random access reads and verifies all columns of a cloud as arrays, and both pair lists: for every pair a
32-bit partner in the row of its anchor. Streaming (two threads) also makes a batch of tensors, with scaled
features and coordinates. Datasets have no neighbour graph (a ninth of a pickle) and store no explicit
anchors; neither is made or read here. Without pairs, the pickles have no graph either: both sides read only
points.

The timed process has not built the dataset. This matters for torch.load, which spends most of its time on
page faults of new memory. In a process that has a free block of memory as large as a pickle's pairs, as after
a build, malloc reuses this block, torch.load takes less than half the time, and the ratios are half as large.

pyarrow and h5py alone read the same files into their own arrays; pyarrow also verifies page checksums. Two
loader workers must deliver a cloud with pairs every 20 ms, the estimated time of a step on a GPU.

Finally, a real training on such clouds measures how long it waits for data.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import torch

import hepdata
from benchmarks.published_files import write_pickle
from benchmarks.ratio import Ratio
from benchmarks.turns import Timing, time_in_turns
from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset
from hepdata.loader.split import Split
from hepdata.pipeline.build import SplitRule, build_dataset
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, PairChoice, TrackingConfig, open_tracking
from hepdata.progress import Silent
from hepdata.simulate.trackml_writer import FIRST_EVENT, simulate_files
from hepdata.storage.columns import PAIR_NAMES
from hepdata.storage.dataset.convert import convert_dataset
from hepdata.storage.dataset.statistics import add_up
from hept.runs.folder import RunFolder
from hept.settings.load import load_config
from hept.training.trainer import fit

N_EVENTS = 2  # of ten sectors each
HITS = 52_000  # the pixel hits of an event of Tracking-60k: 7,000 points per sector


def run() -> list[Ratio]:
    """All ratios of the loader."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _build_elsewhere(folder)
        dataset = hepdata.open_dataset(folder / "parquet")
        ratios = _memory(dataset)
        ratios += _of_parquet(dataset, folder)
        ratios.append(_opening(dataset, folder))
        ratios += _of_hdf5(folder)
        ratios += _of_packed_hdf5(folder)
        ratios.append(_waiting(folder))
    return ratios


def _build_elsewhere(folder: Path) -> None:
    """Build in another process, so that this process starts like one that only reads."""
    process = multiprocessing.get_context("spawn").Process(target=_build, args=(folder,))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the build ended with exit code {process.exitcode}")


def _build(folder: Path) -> None:
    simulate_files(folder / "raw", n_events=N_EVENTS, hits_per_event=HITS, seed=1)
    config = _config()
    rule = SplitRule(ranges=(("train", 0, 10**9),))
    build_dataset(open_tracking(folder / "raw", config), folder / "parquet", events_per_shard=1, split=rule)
    for compression in ("gzip", "none"):
        convert_dataset(folder / "parquet", folder / compression, "hdf5", compression=compression)
    for cloud in hepdata.open_dataset(folder / "parquet")["train"]:
        write_pickle(folder / f"data{cloud.event_id}_s{cloud.sector}.pt", cloud)
        points = replace(cloud, positives=None, negatives=None)
        write_pickle(folder / f"points{cloud.event_id}_s{cloud.sector}.pt", points, has_graph=False)


def _config() -> TrackingConfig:
    return replace(TRACKING_PRESETS["tracking-6k"], pairs=PairChoice("published"))


def _of_parquet(dataset: Dataset, folder: Path) -> list[Ratio]:
    split = dataset["train"]
    files = [
        pq.ParquetFile(folder / "parquet" / shard.name, page_checksum_verification=True)
        for shard in split.shards
    ]
    rows = [(file, row) for file in files for row in range(file.num_row_groups)]

    def read_with_pyarrow() -> None:
        for i in _order(split):
            file, row = rows[i]
            file.read_row_group(row)

    times = time_in_turns(_works(split, folder) | {"pyarrow": read_with_pyarrow})
    ms = 1e3 * times["streaming"].wall / len(split)
    return [
        *_against_pickles(split, "parquet", times),
        _faster("random access, parquet vs pyarrow alone", times["pyarrow"], times["access"], 2.0),
        Ratio("two loader workers, ms per cloud with pairs", ms, 20.0, "at most", f"{len(split)} clouds"),
    ]


def _of_hdf5(folder: Path) -> list[Ratio]:
    split = hepdata.open_dataset(folder / "none")["train"]
    times = time_in_turns(_works(split, folder) | {"bare": partial(_read_bare, folder / "none", split)})
    return [
        *_against_pickles(split, "hdf5", times),
        _within("an epoch's streaming, hdf5 vs h5py alone", times["streaming"], times["bare"]),
    ]


def _of_packed_hdf5(folder: Path) -> list[Ratio]:
    split = hepdata.open_dataset(folder / "gzip")["train"]
    works = {"streaming": partial(_stream, split), "bare": partial(_read_bare, folder / "gzip", split)}
    times = time_in_turns(works, rounds=3)
    return [_within("an epoch's streaming, hdf5 (gzip) vs h5py alone", times["streaming"], times["bare"])]


def _works(split: Split, folder: Path) -> dict[str, Callable[[], object]]:
    """The work to compare between pickles and every format: reading all clouds once."""
    names = [f"{row['event_id']}_s{row['sector']}.pt" for row in split.rows()]

    def load(kind: str) -> None:
        for i in _order(split):
            torch.load(folder / f"{kind}{names[i]}")

    def access(pairs: bool) -> None:
        for i in _order(split):
            split.read(i, pairs=pairs)

    return {
        "pickles": partial(load, "data"),
        "access": partial(access, pairs=True),
        "streaming": partial(_stream, split),
        "pickles of points": partial(load, "points"),
        "access to points": partial(access, pairs=False),
    }


def _order(split: Split) -> list[int]:
    order: list[int] = np.random.default_rng(0).permutation(len(split)).tolist()
    return order


def _stream(split: Split) -> None:
    for _ in split.loader(workers=2, shuffle=True):
        pass


def _read_bare(folder: Path, split: Split) -> None:
    with h5py.File(folder / "train.h5") as file:
        for name in (*split.column_names, *PAIR_NAMES):
            file[name][()]


def _against_pickles(split: Split, label: str, times: Mapping[str, Timing]) -> list[Ratio]:
    total = split.manifest.statistics("train")
    n_pairs = (total.n_positives + total.n_negatives) / len(split) / 1e6
    size = f"{len(split)} clouds, {n_pairs:.1f} M pairs each"
    slow = times["pickles"]
    return [
        _faster(f"random access, {label} vs torch.load ({size})", slow, times["access"], 3.0),
        _faster(f"an epoch's streaming, {label} vs torch.load", slow, times["streaming"], 3.0),
        _faster(
            f"random access without pairs, {label} vs torch.load",
            times["pickles of points"],
            times["access to points"],
            3.0,
        ),
    ]


def _opening(dataset: Dataset, folder: Path) -> Ratio:
    """A manifest of 10,000 clouds against one cloud's pickle."""
    (shard, *_) = dataset["train"].shards
    shards = [
        shard.model_copy(update={"name": f"{i}.parquet", "event_ids": [i]})
        for i in range(10_000 // shard.rows)
    ]
    totals = {"train": add_up(each.statistics for each in shards)}
    (folder / "many").mkdir()
    many = dataset.manifest.model_copy(update={"splits": {"train": shards}, "totals": totals})
    many.write(folder / "many")
    times = time_in_turns(
        {
            "opening": lambda: len(hepdata.open_dataset(folder / "many")["train"]),
            "loading": lambda: torch.load(next(folder.glob("data*.pt"))),
        }
    )
    opening, loading = times["opening"], times["loading"]
    name = "opening 10,000 clouds vs torch.load of one"
    return Ratio(name, opening.wall / loading.wall, 1.0, "at most", f"{opening} / {loading}")


def _memory(dataset: Dataset) -> list[Ratio]:
    """Memory of a loader, relative to the batches that it may hold, and of later relative to earlier epochs.

    Arrow's memory pool keeps the memory of some batches for reuse. A loader that leaks one batch per epoch
    would need 50 % more memory in the later epochs.
    """
    split = dataset["train"]
    loader = split.loader(workers=2, shuffle=True)
    before = _resident()
    peaks, size = [], 0
    for _ in range(10):
        peak = before
        for batch in loader:
            peak = max(peak, _resident())
            size = max(size, _size(batch))
        peaks.append((peak - before) / 1e6)
    n_held = loader.prefetch + loader.workers + 1
    held = n_held * size / 1e6
    early, late = max(peaks[:5]), max(peaks[5:])
    return [
        Ratio(
            f"memory of a loader vs {n_held} batches",
            late / held,
            2.5,
            "at most",
            f"{late:.0f} / {held:.0f} MB",
        ),
        Ratio(
            "memory of a loader, epochs 6–10 vs 1–5",
            late / early,
            1.3,
            "at most",
            f"{late:.0f} / {early:.0f} MB",
        ),
    ]


def _waiting(folder: Path) -> Ratio:
    """An epoch of the published model on one event's ten clouds: the waiting time that the trainer logs.

    The trainer logs it as a fraction of the epoch including validation; here it is a fraction of the steps.
    """
    rule = SplitRule(ranges=(("train", 0, FIRST_EVENT), ("valid", FIRST_EVENT + 1, 10**9)))
    build_dataset(open_tracking(folder / "raw", _config()), folder / "training", split=rule)
    steps = _Steps()
    config = load_config("tracking-6k", ["epochs=1", "data.workers=2"])
    fit(config, folder / "training", folder / "run", progress=steps, device="cpu")
    (row,) = RunFolder(folder / "run").read_rows("metrics")
    waited = float(row["wait_for_data"]) * float(row["seconds"])
    detail = f"{1e3 * waited / steps.n:.1f} ms / {1e3 * steps.seconds / steps.n:.0f} ms per step"
    name = f"waiting for data vs a training step ({steps.n} steps, 2 workers)"
    return Ratio(name, waited / steps.seconds, 0.05, "at most", detail)


class _Steps(Silent):
    """Counts the steps of a training and the seconds from its start to the end of the last step."""

    def __init__(self) -> None:
        self.n, self.seconds = 0, 0.0
        self._begun = time.perf_counter()

    def start(self, description: str, total: int, unit: str, *, done: int = 0) -> None:  # noqa: ARG002
        self._begun = time.perf_counter()

    def advance(self, steps: int = 1, note: str = "") -> None:  # noqa: ARG002
        self.n += steps
        self.seconds = time.perf_counter() - self._begun


def _size(batch: Batch) -> int:
    tensors = [*batch.columns.values(), batch.features, batch.coords, batch.cloud_index]
    for pairs in (batch.positives, batch.negatives):
        tensors += [pairs.ptr, pairs.idx] if pairs is not None else []
    return sum(tensor.nbytes for tensor in tensors)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _faster(name: str, slow: Timing, fast: Timing, goal: float) -> Ratio:
    return Ratio(name, slow.wall / fast.wall, goal, "at least", f"{slow} / {fast}")


def _within(name: str, ours: Timing, bare: Timing) -> Ratio:
    return Ratio(name, ours.wall / bare.wall, 2.0, "at most", f"{ours} / {bare}")
