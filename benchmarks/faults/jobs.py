"""What is disturbed: jobs that make something from folders beside it, and that can be called again.

A job is a function of the folder that holds its inputs.
"""

from __future__ import annotations

import csv
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import hepdata
import hept
from hepdata.storage.dataset import replace

# What every run of a job must give alike, by name.
Result = dict[str, bytes]

TINY_MODEL = {
    "model.n_layers": 1,
    "model.hidden_dim": 4,
    "model.n_heads": 2,
    "model.block_size": 20,
    "model.n_regions": 9,
    "model.ff_dim": 8,
    "epochs": 2,
    "save_every_steps": 1,
}
# What depends on the clock and not on the job.
_TIMES = {"points_per_s", "wait_for_data", "seconds"}


@dataclass(frozen=True)
class Job:
    """Something that can be disturbed.

    Attributes:
        name: In the table.
        work: Does the job in a folder, or finishes what it finds there.
        out: What it makes there.
        read: Reads that.
        cost: How many times longer than the others it takes; it is tried as many times less often.
        dies_together: Whether all its processes are killed when one is, as srun and torchrun do.
        prepare: Makes what the job finds in the folder beside its inputs.
        is_atomic: Whether every file of its output is the old or the new one at every moment.
    """

    name: str
    work: Callable[[Path], object]
    out: str = "out"
    read: Callable[[Path], Result] = lambda path: read_files(path)
    cost: int = 1
    dies_together: bool = False
    prepare: Callable[[Path], None] | None = None
    is_atomic: bool = False


def read_files(folder: Path) -> Result:
    """Every file of a dataset, but for the mark that a kill may leave of a finished convert or merge."""
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "build.json"}


def read_run(folder: Path) -> Result:
    """Losses, metrics and weights of a run, and the names of its files."""
    result = {"files": " ".join(sorted(path.name for path in folder.iterdir() if path.is_file())).encode()}
    for name in ("steps.csv", "metrics.csv"):
        with (folder / name).open(newline="") as file:
            rows = [[row[key] for key in row if key not in _TIMES] for row in csv.DictReader(file)]
        result[name] = repr(rows).encode()
    return result | {name: read_numbers(folder / name) for name in ("best.safetensors", "last.safetensors")}


def read_numbers(weights: Path) -> bytes:
    """The tensors of a weights file, without its header, which has no fixed order."""
    content = weights.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]


def prepare(folder: Path) -> None:
    """Raw events, and the datasets, the run and the weights that jobs start from."""
    import torch

    from hept.paper.literal_model import draw_state

    hepdata.simulate_tracking(folder / "raw", events=6, hits_per_event=120, seed=5)
    hepdata.simulate_pileup(folder / "pileup.root", events=4, pileup=2, seed=2)
    build(folder, "first", events="1000-1002")
    build(folder, "second", events="1003-1005")
    build(folder, "first-h5", events="1000-1002", file_format="hdf5")
    build(folder, "all")
    fit(folder, "run")
    hepdata.build_pileup(folder / "pileup.root", folder / "soft")
    fit(folder, "run-pileup", "soft", "pileup-demo")
    hept.tune_clustering(folder / "run", threads=1)
    for name, is_zip in (("published.pt", True), ("published-old.pt", False)):
        torch.save(draw_state(), folder / name, _use_new_zipfile_serialization=is_zip)


def build(folder: Path, out: str = "out", **options: object) -> object:
    """Build from the raw events."""
    return hepdata.build_tracking(folder / "raw", folder / out, events_per_shard=2, **options)


def overwrite(folder: Path, *, can_exchange: bool = True) -> object:
    """Replace a dataset, also as where the file system cannot exchange two names."""
    if not can_exchange:
        # The process ends with this job.
        replace.exchange = lambda *_: False
    return build(folder, "first", overwrite=True)


def pileup(folder: Path) -> object:
    """Build from the Delphes file."""
    return hepdata.build_pileup(folder / "pileup.root", folder / "out", events_per_shard=2)


def convert(folder: Path, source: str, file_format: str) -> object:
    """Convert a dataset; one that is there already was finished before."""
    if (folder / "out" / "dataset.json").exists():
        return None
    return hepdata.convert(folder / source, folder / "out", file_format=file_format)


def merge(folder: Path) -> object:
    """Merge both halves; a dataset that is there already was finished before."""
    if (folder / "out" / "dataset.json").exists():
        return None
    return hepdata.merge([folder / "first", folder / "second"], folder / "out")


def fit(
    folder: Path, out: str = "out", source: str = "all", preset: str = "tracking-demo", devices: int = 1
) -> object:
    """Train a tiny model."""
    return hept.fit(
        folder / source,
        folder / out,
        preset=preset,
        settings=TINY_MODEL,
        device="cpu",
        devices=devices,
        threads=1,
    )


def fit_in_two(folder: Path) -> object:
    """Train in two processes, started as torchrun starts them; this one is the first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "faults",
        "GROUP_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    other = os.fork()
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0" if other else "1"
    if not other:
        with suppress(BaseException):
            fit(folder, devices=2)
        os._exit(0)
    try:
        return fit(folder, devices=2)
    finally:
        # torchrun, too, ends the others when one has failed.
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


ALONE = (
    Job("build --overwrite", overwrite, out="first"),
    Job("build --overwrite by two renames", partial(overwrite, can_exchange=False), out="first"),
    Job("build", build),
    Job("build to HDF5", partial(build, file_format="hdf5")),
    Job("build pileup", pileup),
    Job("convert to HDF5", partial(convert, source="first", file_format="hdf5")),
    Job("convert to Parquet", partial(convert, source="first-h5", file_format="parquet")),
    Job("merge", merge),
    Job("fit", fit, read=read_run),
)
IN_SEVERAL_PROCESSES = (
    Job("fit, 2 processes", fit_in_two, read=read_run, cost=2, dies_together=True),
    Job("build, 2 workers", partial(build, workers=2), cost=3),
    Job("build with Dask", partial(build, workers=2, engine="dask"), cost=5),
)
