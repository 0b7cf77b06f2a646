"""A dataset enters, a folder for Hugging Face, Zenodo or a web server leaves, complete or not at all.

dataset.json  train-00000-of-00004.parquet …   the dataset: `open_dataset` opens the folder
README.md                                      data card with YAML header
croissant.json  CITATION.cff                   metadata for machines
pictures/*.png                                 distributions and events
SHA256SUMS                                     checksum of every other file
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from hepdata.errors import InputError, JobError
from hepdata.loader.dataset import Dataset, open_dataset
from hepdata.pictures.distributions import plot_dataset
from hepdata.progress import Progress, counting
from hepdata.publishing.about import About
from hepdata.publishing.card import write_card
from hepdata.publishing.citation import write_citation
from hepdata.publishing.croissant import FILE_NAME as CROISSANT
from hepdata.publishing.croissant import read_date, write_croissant
from hepdata.publishing.hub import Repository, push_folder
from hepdata.storage.atomic import disk_errors, sync_folder, write_atomically
from hepdata.storage.dataset.convert import convert_dataset
from hepdata.storage.dataset.lock import refuse_existing
from hepdata.storage.dataset.manifest import Manifest, ShardRecord
from hepdata.storage.draft import draft_folder

CHECKSUMS = "SHA256SUMS"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Published:
    """What `publish` made.

    Attributes:
        out: The folder.
        files: Its files.
        manifest: Of the dataset in it.
        about: What the card says of it.
        commit: Address of the commit, if it was uploaded.
    """

    out: Path
    files: tuple[Path, ...]
    manifest: Manifest
    about: About
    commit: str | None = None


def publish_dataset(
    dataset: Dataset,
    out: Path,
    about: About,
    *,
    events: int,
    repository: Repository | None,
    private: bool,
    progress: Progress,
) -> Published:
    """Lay out the folder and upload it; see `hepdata.publish`."""
    if repository is not None and out.is_dir() and any(out.iterdir()):
        check_published(out, dataset, about)
    else:
        lay_out(dataset, out, about, events=events, progress=progress)
    files = list_files(out)
    commit = None
    if repository is not None:
        commit = push_folder(out, files, repository, private=private, title=about.title, progress=progress)
    return Published(out, tuple(files), Manifest.read(out), about, commit)


def lay_out(dataset: Dataset, out: Path, about: About, *, events: int, progress: Progress) -> None:
    """Write the folder `out`.

    Args:
        dataset: What to publish; HDF5 is converted to Parquet.
        out: New folder, or an empty one.
        about: Title, licence and the like.
        events: Events to draw.
        progress: Told of the steps.

    Raises:
        InputError: `out` exists.
        JobError: A data file is damaged, or a file cannot be written.
    """
    with draft_folder(out) as folder:
        refuse_existing(out)
        if dataset.manifest.file_format == "parquet":
            _copy_dataset(dataset, folder, progress)
        else:
            convert_dataset(dataset.root.location, folder, "parquet", progress=progress)
        published = open_dataset(folder)
        pictures = _draw(published, folder, events, progress)
        texts = {
            "README.md": write_card(about, published.manifest, pictures),
            CROISSANT: write_croissant(about, published.manifest),
            "CITATION.cff": write_citation(about),
        }
        for name, text in texts.items():
            _write(folder / name, text)
        _write_checksums(folder, published.manifest)
        with disk_errors(out):
            sync_folder(folder)
            folder.rename(out)
            sync_folder(out.parent)


def check_published(out: Path, dataset: Dataset, about: About) -> None:
    """Check that `out` is what `lay_out` writes for this dataset and description, unchanged.

    Raises:
        InputError: It is not.
    """
    try:
        manifest, text = Manifest.read(out), (out / CROISSANT).read_text(encoding="utf-8")
    except (InputError, OSError, ValueError) as error:
        raise _other(out, "something that was not published from a dataset") from error
    if not _is_same(manifest, dataset.manifest):
        raise _other(out, "another dataset")
    dated = replace(about, date=read_date(text))
    if write_croissant(dated, manifest) != text:
        raise _other(out, "the dataset with another title, licence, description, author or URL")
    for line in _read_checksums(out):
        expected, _, name = line.partition("  ")
        path = out / name
        if not path.is_file() or _digest(path) != expected:
            raise _other(out, f"the file {name!r} changed or missing")


def list_files(out: Path) -> list[Path]:
    """All files below a folder, in order."""
    return sorted(path for path in out.rglob("*") if path.is_file())


def _copy_dataset(dataset: Dataset, folder: Path, progress: Progress) -> None:
    shards = [shard for part in dataset.manifest.splits.values() for shard in part]
    with counting(progress, "copying", len(shards), "file"):
        for shard in shards:
            _copy_shard(dataset, shard, folder)
            progress.advance()
    dataset.manifest.write(folder)


def _copy_shard(dataset: Dataset, shard: ShardRecord, folder: Path) -> None:
    digest = hashlib.sha256()
    try:
        with dataset.root.open(shard.name) as source, write_atomically(folder / shard.name) as copy:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                copy.write(chunk)
    except FileNotFoundError as error:
        raise _damaged(dataset.root.name_of(shard.name), "no such file") from error
    if digest.hexdigest() != shard.sha256:
        raise _damaged(dataset.root.name_of(shard.name), "another checksum than the manifest's")


def _draw(dataset: Dataset, folder: Path, events: int, progress: Progress) -> list[str]:
    split = next((name for name in dataset.splits if len(dataset[name])), None)
    if split is None:
        return []
    files = plot_dataset(dataset, folder / "pictures", split=split, n_events=events, progress=progress)
    return [path.relative_to(folder).as_posix() for path in files]


def _write(path: Path, text: str) -> None:
    with write_atomically(path, sync_name=False) as file:
        file.write(text.encode())


def _write_checksums(folder: Path, manifest: Manifest) -> None:
    known = {shard.name: shard.sha256 for shards in manifest.splits.values() for shard in shards}
    names = [path.relative_to(folder).as_posix() for path in list_files(folder)]
    lines = [f"{known.get(name) or _digest(folder / name)}  {name}\n" for name in names]
    _write(folder / CHECKSUMS, "".join(lines))


def _read_checksums(out: Path) -> list[str]:
    try:
        return (out / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise _other(out, f"no {CHECKSUMS}") from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_same(published: Manifest, source: Manifest) -> bool:
    if source.file_format == "parquet":
        return published.fingerprint == source.fingerprint
    # Files of the other format have other checksums.
    return (published.totals, published.configuration, published.sources) == (
        source.totals,
        source.configuration,
        source.sources,
    )


def _damaged(where: str, found: str) -> JobError:
    return JobError(
        where,
        found=found,
        expected="the file that the manifest lists",
        remedy="run hept-data validate, and copy or build the dataset again",
    )


def _other(out: Path, found: str) -> InputError:
    return InputError(
        out,
        found=found,
        expected="a new folder, or the unchanged folder of an earlier attempt with the same settings",
        remedy="remove it, or choose another folder",
    )
