"""Datasets of every released format version open, now and later."""

import base64
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hepdata
from hepdata.schema import SCHEMAS, TRACKING, Column
from hepdata.storage.manifest import FORMAT_VERSION
from hepdata.storage.old_schema import complete_schema
from hepdata.storage.pages import INDEX_DTYPE, decode_page, read_index
from hepdata.storage.validate import validate_dataset

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
    assert dataset.schema == SCHEMAS[dataset.task]


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


@pytest.mark.parametrize(
    ("name", "dtype", "codec"),
    [
        ("neg_idx", "int32", "lz4_raw"),
        ("pos_idx", "int32", "zstd"),
        ("particle_id", "int64", "zstd"),
        ("eta", "float32", "lz4_raw"),
        ("is_scored", "bool", "zstd"),
    ],
)
def test_pages_of_version_1_have_the_codec_of_their_column(name, dtype, codec):
    """The tiny datasets have some of these uncompressed: they are too small to shrink."""
    values = (np.arange(3000) % 7 < 3).astype(dtype)
    raw = np.packbits(values, bitorder="little") if dtype == "bool" else values.view(np.uint8)
    if dtype == "float32":
        raw = np.ascontiguousarray(raw.reshape(-1, 4).T).reshape(-1)
    stored = pa.Codec(codec).compress(raw).to_pybytes()
    assert len(stored) < raw.nbytes
    page = memoryview(b"header" + stored)
    crc = zlib.crc32(page)
    # offset, length, head, count, raw, crc, is_compressed; an empty page before it
    packed = struct.pack("<q6I", 0, 6, 6, 0, 0, 1, 0)
    packed += struct.pack("<q6I", 6, len(page), 6, len(values), raw.nbytes, crc, 1)
    columns = [Column("other", "float32", "", ""), Column(name, dtype, "", "")]
    (_, entry), checksum = read_index({b"hept.index": base64.b64encode(packed)}, columns)
    assert checksum(page) == crc == entry[INDEX_DTYPE.names.index("checksum")]
    found = decode_page(page, entry, columns[1])
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)
