"""What is disturbed: jobs that make a folder `out` from folders beside it.

A job is a function of the folder that holds its inputs. A training joins by an entry in `JOBS` whose function
continues the run that it finds in `out`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.pileup_source import PileupSource, with_changes
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking
from hepdata.simulate.pileup_file import write_pileup
from hepdata.simulate.trackml_writer import simulate_files
from hepdata.storage.dataset.convert import convert_dataset
from hepdata.storage.dataset.merge import merge_datasets

Job = Callable[[Path], object]
_SIXTY = TRACKING_PRESETS["tracking-60k"]


def prepare(folder: Path) -> None:
    """Raw events and the datasets that jobs start from."""
    simulate_files(folder / "raw", n_events=6, hits_per_event=120, seed=5)
    write_pileup(folder / "pileup.root", events=4, pileup=2, seed=2)
    tracking(folder, "parquet", "out", first=1000, last=1002)
    (folder / "out").rename(folder / "first")
    tracking(folder, "parquet", "out", first=1003, last=1005)
    (folder / "out").rename(folder / "second")
    tracking(folder, "hdf5", "out", first=1000, last=1002)
    (folder / "out").rename(folder / "first-h5")


def tracking(
    folder: Path,
    file_format: str,
    out: str,
    *,
    first: int | None = None,
    last: int | None = None,
    overwrite: bool = False,
) -> object:
    """Build from the raw events."""
    source = open_tracking(folder / "raw", _SIXTY, first_event=first, last_event=last)
    kind = "hdf5" if file_format == "hdf5" else "parquet"
    return build_dataset(source, folder / out, file_format=kind, events_per_shard=2, overwrite=overwrite)


def pileup(folder: Path) -> object:
    """Build from the Delphes file."""
    source = PileupSource.open([str(folder / "pileup.root")], with_changes("pileup-10k"))
    return build_dataset(source, folder / "out", events_per_shard=2)


def convert(folder: Path, source: str, file_format: str) -> object:
    """Convert a dataset; one that is there already was finished before."""
    if (folder / "out" / "dataset.json").exists():
        return None
    return convert_dataset(folder / source, folder / "out", "hdf5" if file_format == "hdf5" else "parquet")


def merge(folder: Path) -> object:
    """Merge both halves; a dataset that is there already was finished before."""
    if (folder / "out" / "dataset.json").exists():
        return None
    return merge_datasets([folder / "first", folder / "second"], folder / "out")


JOBS: dict[str, Job] = {
    "build": partial(tracking, file_format="parquet", out="out"),
    "build to HDF5": partial(tracking, file_format="hdf5", out="out"),
    "build pileup": pileup,
    "overwrite": partial(tracking, file_format="parquet", out="first", overwrite=True),
    "convert to HDF5": partial(convert, source="first", file_format="hdf5"),
    "convert to Parquet": partial(convert, source="first-h5", file_format="parquet"),
    "merge": merge,
}


def result_of(job: str, folder: Path) -> Path:
    """The dataset that a job makes."""
    return folder / ("first" if job == "overwrite" else "out")
