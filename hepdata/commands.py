"""The functions behind the commands of `hept-data`, except those that build (`hepdata.building`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hepdata.errors import InputError
from hepdata.progress import ProgressChoice, listen

if TYPE_CHECKING:
    from hepdata.loader.dataset import Dataset, DatasetLike
    from hepdata.pipeline.pileup_inspect import Inspection
    from hepdata.publishing.publish import Published
    from hepdata.simulate.pileup_file import PileupSample
    from hepdata.simulate.trackml_writer import SimulationSummary
    from hepdata.storage.dataset.validate import Finding

PathLike = str | os.PathLike[str]


def simulate_tracking(
    out: PathLike,
    *,
    events: int = 10,
    hits_per_event: int | None = None,
    seed: int = 0,
    engine: Literal["toy", "acts"] = "toy",
    first_event: int = 1000,
    gzip: bool = False,
    workers: int | None = None,
    progress: ProgressChoice = None,
) -> SimulationSummary:
    """Simulate TrackML events into a folder.

    Args:
        out: Folder of the CSV files; it must not contain other events.
        events: How many events.
        hits_per_event: Mean number of hits, noise included; unless given, 2,000 with the engine "toy" and
            13,000 with "acts".
        seed: The same seed gives the same bytes.
        engine: "toy", a small pixel detector, needs nothing and takes milliseconds an event. "acts" simulates
            pp → tt̄ with pileup in the whole TrackML detector by Pythia and ACTS Fatras (extra `acts`).
        first_event: Number of the first event.
        gzip: Write .csv.gz files.
        workers: Number of processes; unless given, one for "toy" and one per core for "acts". The events do
            not depend on it.
        progress: See `hepdata.progress.listen`.

    Raises:
        InputError: A number out of range, a folder that cannot take the files, or a missing package.
        JobError: Writing failed.
    """
    from joblib import cpu_count

    from hepdata.simulate.acts.simulation import ActsSimulation
    from hepdata.simulate.tracking import ToySimulation
    from hepdata.simulate.trackml_writer import simulate_files

    if engine not in ("toy", "acts"):
        raise InputError(
            "`engine`", found=repr(engine), expected="'toy' or 'acts'", remedy="choose one of the two"
        )
    is_toy = engine == "toy"

    with listen(progress) as listener:
        return simulate_files(
            Path(out),
            n_events=events,
            hits_per_event=(2000 if is_toy else 13_000) if hits_per_event is None else hits_per_event,
            seed=seed,
            first_event=first_event,
            compress=gzip,
            simulation=ToySimulation() if is_toy else ActsSimulation(),
            workers=(1 if is_toy else cpu_count()) if workers is None else workers,
            progress=listener,
        )


def simulate_pileup(
    out: PathLike,
    *,
    events: int = 100,
    pileup: float = 50.0,
    pileup_max: float | None = None,
    seed: int = 0,
    progress: ProgressChoice = None,
) -> PileupSample:
    """Simulate a Delphes ROOT file: a hard collision with jets and a lepton over soft ones.

    Args:
        out: The ROOT file.
        events: How many events.
        pileup: Mean number of soft collisions in an event; 50 give about 10,000 particles.
        pileup_max: The mean number of each event is drawn evenly from `pileup` to this one.
        seed: The same seed gives the same bytes.
        progress: See `hepdata.progress.listen`.

    Raises:
        InputError: A number out of range, or a file that cannot be written.
    """
    from hepdata.simulate.pileup_file import write_pileup

    with listen(progress) as listener:
        return write_pileup(
            Path(out), events=events, pileup=pileup, pileup_max=pileup_max, seed=seed, progress=listener
        )


def inspect(file: PathLike, *, event: int = 0, branches: str = "auto") -> Inspection:
    """What a Delphes file contains: branches, presets that fit, sources of labels, counts of one event.

    Args:
        file: Path or URL.
        event: Which event to count.
        branches: Preset, "auto", or the path of a YAML map.

    Raises:
        InputError: The file cannot be read, or has no such event.
    """
    from hepdata.pipeline.pileup_inspect import inspect_file
    from hepdata.readers.delphes_files import find_files

    return inspect_file(find_files([os.fspath(file)])[0], entry=event, branches=branches)


def validate(dataset: DatasetLike, *, progress: ProgressChoice = None) -> list[Finding]:
    """Check every byte and every cloud of a dataset.

    Args:
        dataset: Location, or the opened dataset.
        progress: See `hepdata.progress.listen`.

    Returns:
        All problems; an empty list if there are none.

    Raises:
        InputError: There is no dataset, or one of a newer format.
    """
    from hepdata.storage.dataset.validate import validate_dataset

    with listen(progress) as listener:
        return validate_dataset(locate(dataset), progress=listener)


def convert(
    dataset: DatasetLike,
    out: PathLike,
    *,
    file_format: Literal["parquet", "hdf5"] | None = None,
    compression: Literal["gzip", "none"] = "none",
    progress: ProgressChoice = None,
) -> Dataset:
    """Write a dataset in the other format; nothing is lost.

    Args:
        dataset: Location, or the opened dataset.
        out: New folder.
        file_format: Of the result; by default the other one.
        compression: Of HDF5 files; "gzip" is smaller and slower to read.
        progress: See `hepdata.progress.listen`.

    Returns:
        The new dataset, opened.

    Raises:
        InputError: No dataset, one that has this format already, or a folder that exists.
        JobError: A file cannot be written.
    """
    from hepdata.loader.dataset import open_dataset
    from hepdata.storage.dataset.convert import convert_dataset

    opened = open_dataset(dataset)
    other: Literal["parquet", "hdf5"] = "hdf5" if opened.manifest.file_format == "parquet" else "parquet"
    with listen(progress) as listener:
        convert_dataset(
            opened.root.location, out, file_format or other, compression=compression, progress=listener
        )
    return open_dataset(out)


def merge(
    datasets: Sequence[DatasetLike],
    out: PathLike,
    *,
    compression: Literal["gzip", "none"] = "none",
    progress: ProgressChoice = None,
) -> Dataset:
    """Put the clouds of several datasets into one new folder.

    Args:
        datasets: Locations or opened datasets, of the same configuration and of different events.
        out: New folder.
        compression: Of HDF5 files.
        progress: See `hepdata.progress.listen`.

    Returns:
        The new dataset, opened.

    Raises:
        InputError: Datasets that do not fit together, or a folder that exists.
        JobError: A file cannot be written.
    """
    from hepdata.loader.dataset import open_dataset
    from hepdata.storage.dataset.merge import merge_datasets

    with listen(progress) as listener:
        merge_datasets(
            [locate(dataset) for dataset in datasets], out, compression=compression, progress=listener
        )
    return open_dataset(out)


def export_padded(
    dataset: DatasetLike,
    out: PathLike,
    *,
    split: str = "train",
    max_points: int | None = None,
    scaled: bool = True,
    progress: ProgressChoice = None,
) -> int:
    """Write one split as a padded HDF5 file: clouds × points × features, and a mask.

    Args:
        dataset: Location, or the opened dataset.
        out: The HDF5 file.
        split: Which split.
        max_points: Points per cloud; by default the size of the largest cloud. Larger clouds keep the
            points of highest pt.
        scaled: Whether features are multiplied by the scales of the manifest.
        progress: See `hepdata.progress.listen`.

    Returns:
        Points that did not fit.

    Raises:
        InputError: No such split, or a file that cannot be written.
    """
    from hepdata.loader.dataset import open_dataset

    with listen(progress) as listener:
        return open_dataset(dataset)[split].to_padded_hdf5(out, max_points, scaled=scaled, progress=listener)


def plot(
    dataset: DatasetLike,
    out: PathLike,
    *,
    split: str = "train",
    events: int = 3,
    max_clouds: int = 200,
    progress: ProgressChoice = None,
) -> list[Path]:
    """Draw the distributions of every feature and label, and a few events, into PNG files.

    Args:
        dataset: Location, or the opened dataset.
        out: Folder of the files.
        split: Which split to draw.
        events: Events to draw.
        max_clouds: Number of clouds in the distributions, spread over the split.
        progress: See `hepdata.progress.listen`.

    Returns:
        The files.

    Raises:
        InputError: The split is empty or does not exist, or the folder cannot be made.
    """
    from hepdata.loader.dataset import open_dataset
    from hepdata.pictures.distributions import plot_dataset

    with listen(progress) as listener:
        return plot_dataset(
            open_dataset(dataset),
            Path(out),
            split=split,
            max_clouds=max_clouds,
            n_events=events,
            progress=listener,
        )


def view(
    dataset: DatasetLike,
    out: PathLike | None = None,
    *,
    split: str = "train",
    events: int = 5,
) -> Path:
    """Write an interactive page of events: η–φ and 3-D, colours, filters, all columns; it needs no network.

    Args:
        dataset: Location, or the opened dataset.
        out: The HTML file; "view-DATASET.html" in the current folder where not given.
        split: Which split to show.
        events: How many clouds, from the first one on; each of 60,000 points adds about 3 MB to the page.

    Returns:
        The page.

    Raises:
        InputError: The split does not exist or is empty, or `events` is less than 1.
        JobError: The page cannot be written.
    """
    from hepdata.loader.dataset import open_dataset
    from hepdata.viewer.page import write_view

    opened = open_dataset(dataset)
    name = opened.root.location.rstrip("/").rpartition("/")[2]
    return write_view(
        opened[split], Path(out or f"view-{name}.html"), title=f"{name}, {split}", n_events=events
    )


def publish(
    dataset: DatasetLike,
    to: PathLike,
    *,
    title: str | None = None,
    description: str | None = None,
    license: str = "unknown",
    authors: Sequence[str] = (),
    url: str | None = None,
    events: int = 1,
    push: str | None = None,
    private: bool = False,
    progress: ProgressChoice = None,
) -> Published:
    """Lay a dataset out for Hugging Face, Zenodo or a web server: data card, metadata, checksums, citation.

    The folder is a dataset too: `open_dataset` opens it. It appears complete or not at all. With `push`,
    the folder of an earlier attempt with the same settings is uploaded as it is.

    Args:
        dataset: Location, or the opened dataset; HDF5 is converted to Parquet.
        to: New folder.
        title: Of the card, the metadata and the citation; by default the task.
        description: A few sentences; by default the counts.
        license: SPDX identifier such as "CC-BY-4.0".
        authors: Names of people or collaborations.
        url: Where the dataset will be found; by default the address that `push` names.
        events: Events to draw on the card.
        push: Address to upload the folder to, `hf://user/name`.
        private: Whether a repository that `push` makes is private.
        progress: See `hepdata.progress.listen`.

    Raises:
        InputError: No dataset, an unusable licence or address, or a folder that exists.
        JobError: A damaged file, a disk that refuses, or an upload that failed.
    """
    from datetime import UTC, datetime

    from hepdata.loader.dataset import open_dataset
    from hepdata.publishing.about import describe
    from hepdata.publishing.hub import find_repository
    from hepdata.publishing.publish import publish_dataset

    opened = open_dataset(dataset)
    repository = None if push is None else find_repository(push)
    about = describe(
        opened.manifest,
        title=title,
        description=description,
        license=license,
        authors=authors,
        url=url or (repository.url if repository else ""),
        date=datetime.now(UTC).date().isoformat(),
    )
    with listen(progress) as listener:
        return publish_dataset(
            opened,
            Path(to),
            about,
            events=events,
            repository=repository,
            private=private,
            progress=listener,
        )


def locate(dataset: DatasetLike) -> str:
    """The location of a dataset, which may be opened already."""
    return os.fspath(dataset) if isinstance(dataset, str | os.PathLike) else dataset.root.location
