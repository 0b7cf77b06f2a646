"""Reading clouds: against per-event pickles with torch.load, and against bare Arrow and h5py.

Both sides read the same simulated clouds of the size of Tracking-6k, with pairs of the published definition,
from a warm cache, in one process. The pickles have every tensor of the published files, a neighbour graph
among them (see `benchmarks.published_files`), and are read with torch.load as it comes. Last, a real training
on such clouds, to see how long it waits for data.
"""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import torch

import hepdata
from benchmarks.published_files import write_pickle
from benchmarks.ratio import Ratio, seconds
from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset
from hepdata.pipeline.run import SplitRule, build_dataset
from hepdata.pipeline.tracking import TRACKING_PRESETS, PairChoice, TrackingConfig, open_tracking
from hepdata.progress import Silent
from hepdata.simulate.trackml_files import FIRST_EVENT, simulate_files
from hepdata.storage.convert import convert_dataset
from hept.config import load_config
from hept.run_folder import RunFolder
from hept.training.trainer import fit

N_EVENTS = 2  # of ten sectors each
HITS = 52_000  # the pixel hits of an event of Tracking-60k: 7,000 points a sector


def run() -> list[Ratio]:
    """All ratios of the loader."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dataset = _build(folder)
        ratios = _memory(dataset)
        ratios += _against_pickles(dataset, folder, "parquet")
        ratios.append(_opening(dataset, folder))
        ratios += _against_arrow(dataset, folder)
        ratios += _against_h5py(folder)
        ratios.append(_waiting(folder))
    return ratios


def _build(folder: Path) -> Dataset:
    simulate_files(folder / "raw", n_events=N_EVENTS, hits_per_event=HITS, seed=1)
    config = _config()
    rule = SplitRule(ranges=(("train", 0, 10**9),))
    build_dataset(open_tracking(folder / "raw", config), folder / "parquet", events_per_shard=1, splits=rule)
    for compression in ("gzip", "none"):
        convert_dataset(folder / "parquet", folder / compression, "hdf5", compression=compression)
    dataset = hepdata.open_dataset(folder / "parquet")
    for cloud in dataset["train"]:
        write_pickle(folder / f"data{cloud.event_id}_s{cloud.sector}.pt", cloud)
    return dataset


def _config() -> TrackingConfig:
    return replace(TRACKING_PRESETS["tracking-6k"], pairs=PairChoice("published"))


def _against_pickles(dataset: Dataset, folder: Path, label: str) -> list[Ratio]:
    split = dataset["train"]
    order = np.random.default_rng(0).permutation(len(split))
    paths = [folder / f"data{row['event_id']}_s{row['sector']}.pt" for row in split.rows()]
    n_pairs = (
        dataset.manifest.statistics("train").n_positives + dataset.manifest.statistics("train").n_negatives
    )
    size = f"{len(split)} clouds, {n_pairs / len(split) / 1e6:.1f} M pairs each"

    def pickles() -> None:
        for i in order:
            torch.load(paths[i])

    def access() -> None:
        for i in order:
            split[int(i)]

    def stream() -> None:
        for _ in split.loader(workers=2, shuffle=True):
            pass

    slow = seconds(pickles)
    return [
        _faster(f"random access, {label} vs torch.load ({size})", slow, seconds(access), 5.0),
        _faster(f"an epoch's streaming, {label} vs torch.load", slow, seconds(stream), 5.0),
    ]


def _opening(dataset: Dataset, folder: Path) -> Ratio:
    """A manifest of 10,000 clouds against one cloud's pickle."""
    (shard, *_) = dataset["train"].shards
    shards = [
        shard.model_copy(
            update={"name": f"{i}.parquet", "rows": 32, "event_ids": list(range(32 * i, 32 * i + 32))}
        )
        for i in range(313)
    ]
    (folder / "many").mkdir()
    dataset.manifest.model_copy(update={"splits": {"train": shards}}).write(folder / "many")
    opening = seconds(lambda: len(hepdata.open_dataset(folder / "many")["train"]))
    loading = seconds(lambda: torch.load(next(folder.glob("*.pt"))))
    detail = f"{1e3 * opening:.0f} ms / {1e3 * loading:.0f} ms"
    return Ratio("opening 10,000 clouds vs torch.load of one", opening / loading, 1.0, "at most", detail)


def _against_arrow(dataset: Dataset, folder: Path) -> list[Ratio]:
    split = dataset["train"]
    files = [pq.ParquetFile(folder / "parquet" / shard.name) for shard in split.shards]
    rows = [(file, row) for file in files for row in range(file.num_row_groups)]

    def arrow_access() -> None:
        for file, row in rows:
            file.read_row_group(row)

    def arrow_stream() -> None:
        for file in files:
            file.read()

    def access() -> None:
        for i in range(len(split)):
            split[i]

    def stream() -> None:
        for _ in split.loader(workers=2):
            pass

    return [
        _within("random access, parquet vs bare pyarrow", seconds(access), seconds(arrow_access)),
        _within("an epoch's streaming, parquet vs bare pyarrow", seconds(stream), seconds(arrow_stream)),
    ]


def _against_h5py(folder: Path) -> list[Ratio]:
    ratios = []
    for compression in ("gzip", "none"):
        dataset = hepdata.open_dataset(folder / compression)
        split = dataset["train"]
        ratios += _against_pickles(dataset, folder, f"hdf5 ({compression})") if compression == "none" else []
        file = h5py.File(folder / compression / "train.h5")
        names = [*split.column_names, "pos_ptr", "pos_idx", "neg_ptr", "neg_idx"]

        def bare(file: h5py.File = file, names: list[str] = names) -> None:
            for name in names:
                file[name][()]

        def stream(split: hepdata.loader.split.Split = split) -> None:
            for _ in split.loader(workers=2):
                pass

        ratios.append(
            _within(
                f"an epoch's streaming, hdf5 ({compression}) vs bare h5py", seconds(stream), seconds(bare)
            )
        )
    return ratios


def _memory(dataset: Dataset) -> list[Ratio]:
    """Memory of a loader: against the batches that it may hold, and later epochs against earlier ones."""
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
            2.0,
            "at most",
            f"{late:.0f} / {held:.0f} MB",
        ),
        Ratio(
            "memory of a loader, epochs 6–10 vs 1–5",
            late / early,
            1.1,
            "at most",
            f"{late:.0f} / {early:.0f} MB",
        ),
    ]


def _waiting(folder: Path) -> Ratio:
    """An epoch of the published model on one event's ten clouds: the trainer's own account of its waiting.

    It logs waiting as a share of the epoch, validation included; here it is a share of the steps alone.
    """
    rule = SplitRule(ranges=(("train", 0, FIRST_EVENT), ("valid", FIRST_EVENT + 1, 10**9)))
    build_dataset(open_tracking(folder / "raw", _config()), folder / "training", splits=rule)
    steps = _Steps()
    config = load_config("tracking-6k", ["epochs=1", "data.workers=2"])
    fit(config, folder / "training", folder / "run", progress=steps, accelerator="cpu")
    (row,) = RunFolder(folder / "run").read_rows("metrics")
    waited = float(row["wait_for_data"]) * float(row["seconds"])
    detail = f"{1e3 * waited / steps.n:.1f} ms / {1e3 * steps.seconds / steps.n:.0f} ms a step"
    name = f"waiting for data vs a training step ({steps.n} steps, 2 workers)"
    return Ratio(name, waited / steps.seconds, 0.05, "at most", detail)


class _Steps(Silent):
    """Listens to a training: how many steps, and how long from the beginning to the end of the last."""

    def __init__(self) -> None:
        self.n, self.seconds = 0, 0.0
        self._begun = time.perf_counter()

    def start(self, description: str, total: int, unit: str) -> None:  # noqa: ARG002
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


def _faster(name: str, slow: float, fast: float, goal: float) -> Ratio:
    return Ratio(name, slow / fast, goal, "at least", f"{1e3 * slow:.0f} ms / {1e3 * fast:.0f} ms")


def _within(name: str, ours: float, bare: float) -> Ratio:
    return Ratio(name, ours / bare, 2.0, "at most", f"{1e3 * ours:.0f} ms / {1e3 * bare:.0f} ms")
