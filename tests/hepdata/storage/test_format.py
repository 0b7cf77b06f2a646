"""Datasets of every released format version open, now and later."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hepdata
from hepdata.errors import InputError
from hepdata.schema import SCHEMAS, TRACKING, Column
from hepdata.storage.dataset.convert import convert_dataset
from hepdata.storage.dataset.manifest import FORMAT_VERSION
from hepdata.storage.dataset.old_schema import complete_schema
from hepdata.storage.dataset.validate import validate_dataset

DATA = Path(__file__).resolve().parents[2] / "data"
FIXTURES = sorted(path for path in DATA.glob("v*-*") if path.is_dir())


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda path: path.name)
def test_every_released_version_opens(folder):
    dataset = hepdata.open_dataset(folder)
    assert [len(dataset[split]) for split in ("train", "valid", "test")] == [3, 1, 1]
    for split, events in (("train", [0, 1, 2]), ("valid", [3]), ("test", [4])):
        for event, cloud in zip(events, dataset[split], strict=True):
            assert (cloud.event_id, cloud.sector, cloud.n_points) == (event, event % 2, 4 + event)
            for number, (name, values) in enumerate(cloud.columns.items()):
                expected = (np.arange(4 + event) * (number + 1) + event) % 7
                if values.dtype == bool:
                    expected = expected % 2 == 1
                np.testing.assert_array_equal(values, expected, err_msg=name)
            if dataset.task == "tracking":
                assert cloud.positives.n_pairs == 0
                assert cloud.negatives.idx.tolist() == [*range(1, 4 + event), 0]


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda path: path.name)
def test_what_their_manifests_leave_unsaid_is_known(folder):
    dataset = hepdata.open_dataset(folder)
    known = SCHEMAS[dataset.task]
    # Columns that later versions added are not in their files.
    stored = tuple(column for column in known.columns if dataset.schema.has_column(column.name))
    assert dataset.schema == replace(known, columns=stored)


def test_imported_points_of_old_manifests_are_found_again_by_their_position():
    target = replace(TRACKING.target, point_id="index_in_source")
    columns = (Column("index_in_source", "int32", "", "position"), *TRACKING.columns[1:])
    old = replace(TRACKING, columns=tuple(replace(c, period=None) for c in columns), target=None)
    assert complete_schema(old) == replace(TRACKING, columns=columns, target=target)
    assert complete_schema(replace(old, task="jets")).target is None


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda path: path.name)
def test_their_files_are_whole(folder):
    problems = [finding.problem for finding in validate_dataset(folder)]
    assert not [problem for problem in problems if "checksum" in problem or "columns than" in problem]


def test_there_is_one_of_every_version_task_and_format():
    expected = {
        f"v{version}-{task}-{file_format}"
        for version in range(1, FORMAT_VERSION + 1)
        for task in ("tracking", "pileup")
        for file_format in ("parquet", "hdf5")
    }
    assert {path.name for path in FIXTURES} == expected


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda path: path.name)
@pytest.mark.parametrize("file_format", ["parquet", "hdf5"])
def test_earlier_versions_are_converted_to_the_current_one(tmp_path, folder, file_format):
    """Whatever the version was, the result has the same bytes."""
    _, task, old_format = folder.name.split("-")
    current = DATA / f"v{FORMAT_VERSION}-{task}-{file_format}"
    if folder.name == f"v{FORMAT_VERSION}-{task}-{file_format}":
        with pytest.raises(InputError, match=f"found a dataset in {old_format} already"):
            convert_dataset(folder, tmp_path / "out", file_format)
        return
    manifest = convert_dataset(folder, tmp_path / "out", file_format)
    assert manifest.format_version == FORMAT_VERSION
    clouds = [list(hepdata.open_dataset(path)["train"]) for path in (tmp_path / "out", current)]
    for found, expected in zip(*clouds, strict=True):
        for name, values in expected.columns.items():
            np.testing.assert_array_equal(found.columns[name], values)
    names = {path.name for path in current.iterdir()}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names


@pytest.mark.parametrize(
    "folder", [path for path in FIXTURES if "parquet" in path.name], ids=lambda p: p.name
)
def test_damage_in_any_version_is_found(tmp_path, folder):
    """Earlier versions too: their pages have the checksums that pyarrow verifies."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "valid-00000-of-00001.parquet"
    content, group = path.read_bytes(), pq.read_metadata(path).row_group(0)
    for number in range(3, group.num_columns):
        chunk = group.column(number)
        last = chunk.data_page_offset + chunk.total_compressed_size - 1
        path.write_bytes(content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :])
        name = chunk.path_in_schema.partition(".")[0]
        with pytest.raises(InputError, match=f"damaged bytes in event 3, sector 1, column {name}"):
            hepdata.open_dataset(tmp_path)["valid"][0]
