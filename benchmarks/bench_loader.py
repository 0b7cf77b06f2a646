"""Reading clouds: against per-event pickles with torch.load, and against bare Arrow and h5py.

Both sides read the same simulated clouds of the size of Tracking-6k, with pairs of the published definition,
from a warm cache, in one process.
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import torch

import hepdata
from benchmarks.published_files import write_pickle
from benchmarks.ratio import Ratio, seconds
from hepdata.loader.dataset import Dataset
from hepdata.pipeline.run import build_dataset
from hepdata.pipeline.tracking import PairChoice, TrackingConfig, open_tracking
from hepdata.simulate.trackml_files import simulate_files
from hepdata.storage.convert import convert_dataset

N_EVENTS = 12
HITS = 13_000  # of which about half are in the pixels: 6,800 points


def run() -> list[Ratio]:
    """All ratios of the loader."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dataset = _build(folder)
        ratios = _against_pickles(dataset, folder, "parquet")
        ratios += _against_arrow(dataset, folder)
        ratios += _against_h5py(folder)
        ratios.append(_memory(dataset))
    return ratios


def _build(folder: Path) -> Dataset:
    simulate_files(folder / "raw", n_events=N_EVENTS, hits_per_event=HITS, seed=1)
    source = open_tracking(folder / "raw", TrackingConfig(pairs=PairChoice("published")))
    build_dataset(source, folder / "parquet", events_per_shard=4)
    for compression in ("gzip", "none"):
        convert_dataset(folder / "parquet", folder / compression, "hdf5", compression=compression)
    dataset = hepdata.open_dataset(folder / "parquet")
    for cloud in dataset["train"]:
        write_pickle(folder / f"data{cloud.event_id}.pt", cloud)
    return dataset


def _against_pickles(dataset: Dataset, folder: Path, label: str) -> list[Ratio]:
    split = dataset["train"]
    order = np.random.default_rng(0).permutation(len(split))
    paths = [folder / f"data{event}.pt" for event in split.rows()["event_id"]]
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


def _memory(dataset: Dataset) -> Ratio:
    """Peak memory over ten epochs against that over one."""
    split = dataset["train"]

    def peak_after(n_epochs: int) -> float:
        for _ in range(n_epochs):
            for _ in split.loader(workers=2, shuffle=True):
                pass
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    first = peak_after(1)
    later = peak_after(10)
    return Ratio(
        "peak memory, ten more epochs vs one", later / first, 1.05, "at most", f"{later:.0f} / {first:.0f} MB"
    )


def _faster(name: str, slow: float, fast: float, goal: float) -> Ratio:
    return Ratio(name, slow / fast, goal, "at least", f"{1e3 * slow:.0f} ms / {1e3 * fast:.0f} ms")


def _within(name: str, ours: float, bare: float) -> Ratio:
    return Ratio(name, ours / bare, 2.0, "at most", f"{1e3 * ours:.0f} ms / {1e3 * bare:.0f} ms")
