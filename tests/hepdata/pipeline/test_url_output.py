"""Datasets made at URLs: the same bytes as in a folder, whole or absent, and never a folder named `s3:`."""

import os
import sys

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import hepdata
from hepdata.errors import HeptError, InputError, JobError
from hepdata.pipeline.build import build_dataset
from hepdata.storage.dataset.convert import convert_dataset
from hepdata.storage.dataset.merge import merge_datasets
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.dataset.validate import validate_dataset


class Unsteady(MemoryFileSystem):
    """A file system in memory that takes some files, and then refuses."""

    protocol = ("unsteady",)
    store = {}  # noqa: RUF012 (as its base class has it)
    pseudo_dirs = [""]  # noqa: RUF012
    n_left = 0

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("unsteady://", "memory://"))

    def put_file(self, lpath, rpath, **options):
        if not Unsteady.n_left:
            raise ConnectionError("the line is dead")
        Unsteady.n_left -= 1
        super().put_file(lpath, rpath, **options)


fsspec.register_implementation("unsteady", Unsteady, clobber=True)


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """A working folder and one for temporary files: both must be empty in the end."""
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    yield tmp_path
    assert list((tmp_path / "here").iterdir()) == []
    fsspec.filesystem("memory").store.clear()
    Unsteady.store.clear()


def left_in(workplace):
    return sorted(path.name for path in (workplace / "temporary").iterdir())


@pytest.mark.parametrize("file_format", ["parquet", "hdf5"])
def test_a_url_gets_the_same_files(workplace, tracking_source, undisturbed, file_format):
    summary = build_dataset(tracking_source, "memory://bucket/tracks", file_format=file_format)
    assert summary.out == "memory://bucket/tracks"
    assert validate_dataset("memory://bucket/tracks") == []
    assert left_in(workplace) == []
    if file_format == "parquet":
        assert hepdata.open_dataset("memory://bucket/tracks").fingerprint == undisturbed.fingerprint
        stored = fsspec.filesystem("memory").ls("/bucket/tracks", detail=False)
        names = sorted(path.rpartition("/")[2] for path in stored)
        assert names == sorted(path.name for path in undisturbed.out.iterdir())


def test_file_urls_are_folders(workplace, tracking_source, undisturbed):
    summary = build_dataset(tracking_source, f"file://{workplace}/tracks")
    assert summary.out == workplace / "tracks"
    assert summary.fingerprint == undisturbed.fingerprint


@pytest.mark.parametrize("n_files", [0, 1, 3])
def test_a_copy_that_fails_leaves_no_dataset_and_is_continued(
    workplace, tracking_source, undisturbed, n_files
):
    Unsteady.n_left = n_files
    message = r"found the error ConnectionError: the line is dead.*run the same command again"
    with pytest.raises(JobError, match=message):
        build_dataset(tracking_source, "unsteady://tracks")
    assert len(Unsteady.store) == n_files
    assert f"/tracks/{MANIFEST_NAME}" not in Unsteady.store
    with pytest.raises(InputError, match=r"found no dataset\.json"):
        hepdata.open_dataset("unsteady://tracks")
    Unsteady.n_left = 100
    summary = build_dataset(tracking_source, "unsteady://tracks")
    assert summary.was_finished
    assert hepdata.open_dataset("unsteady://tracks").fingerprint == undisturbed.fingerprint
    assert left_in(workplace) == []


def test_a_build_that_is_stopped_is_continued(workplace, tracking_source, undisturbed, listen):
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, "memory://tracks", events_per_shard=1, progress=listen(stop_after=3))
    assert left_in(workplace) != []
    summary = build_dataset(tracking_source, "memory://tracks", events_per_shard=1)
    assert 0 < summary.n_resumed < 6
    assert validate_dataset("memory://tracks") == []
    assert left_in(workplace) == []


@pytest.mark.parametrize("what", ["a link", "a folder that others may write", "a file"])
def test_a_temporary_folder_of_others_is_not_used(workplace, tracking_source, what):
    # Its name is predictable: an attacker who creates it first could redirect our files.
    place = workplace / "temporary" / f"hept-{os.getuid()}"
    if what == "a link":
        place.symlink_to(workplace)
    elif what == "a file":
        place.touch()
    else:
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(HeptError, match=f"{place.name}: found .*(somebody else|File exists)"):
        build_dataset(tracking_source, "memory://tracks")
    assert not fsspec.filesystem("memory").store


def test_a_dataset_at_a_url_is_never_replaced(workplace, tracking_source, make_dataset):
    build_dataset(tracking_source, "memory://tracks")
    with pytest.raises(InputError, match="memory://tracks: found a dataset that already exists"):
        build_dataset(tracking_source, "memory://tracks")
    with pytest.raises(InputError, match="memory://tracks: found `overwrite=True` with a URL"):
        build_dataset(tracking_source, "memory://tracks", overwrite=True)
    make_dataset(workplace / "a")
    with pytest.raises(InputError, match="memory://tracks: found a dataset that already exists"):
        convert_dataset(workplace / "a", "memory://tracks", "hdf5")


@pytest.mark.parametrize("url", ["nonsense://a/b", "s3://bucket/out"])
def test_a_url_that_nobody_can_write_is_refused_before_the_build(
    tracking_source, url, monkeypatch, workplace
):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(InputError, match=f"{url}: found a location that cannot be used"):
        build_dataset(tracking_source, url)
    assert left_in(workplace) == []


def test_a_url_without_its_slashes_is_no_folder(tracking_source, workplace):
    with pytest.raises(
        InputError, match=r"found s3: without two slashes; .* write s3://bucket/out, or \./s3:/b"
    ):
        build_dataset(tracking_source, "s3:/bucket/out")
    assert left_in(workplace) == []


def test_conversions_and_merged_datasets_go_to_urls(workplace, make_dataset):
    make_dataset(workplace / "a")
    make_dataset(workplace / "b", first_event=100)
    convert_dataset(workplace / "a", "memory://converted", "hdf5")
    merge_datasets([workplace / "a", workplace / "b"], "memory://merged")
    assert len(hepdata.open_dataset("memory://converted")) == 8
    assert len(hepdata.open_dataset("memory://merged")) == 16
    assert left_in(workplace) == []
