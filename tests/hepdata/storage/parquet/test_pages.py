"""The fast way to a column gives what pyarrow gives, and what was written; other readers see the same."""

import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.cloud import PairList, PointCloud
from hepdata.schema import TRACKING, Column, Schema
from hepdata.storage.columns import PAIR_NAMES, arrays_of, list_columns
from hepdata.storage.location import open_location
from hepdata.storage.parquet.pages import ChecksumError, Chunk, decode_page
from hepdata.storage.parquet.reader import ParquetShard
from hepdata.storage.parquet.writer import write_shard

DTYPES = ("int32", "int64", "float32", "bool")
SIZES = (0, 1, 2, 7, 8, 9, 63, 64, 65, 500, 20_000)


@st.composite
def shards(draw):
    """A schema and clouds that fit it: any order and number of types, constant or random values."""
    dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=6))
    columns = tuple(Column(f"c{i}", dtype, "m", f"number {i}, ½") for i, dtype in enumerate(dtypes))
    schema = Schema("tracking", columns, (), ())
    sizes = draw(st.lists(st.sampled_from(SIZES), max_size=4))
    has_pairs = draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 99)))
    clouds = [make_any(schema, event, size, has_pairs, random) for event, size in enumerate(sizes)]
    return schema, clouds, has_pairs


def make_any(schema, event, size, has_pairs, random):
    event_id = int(random.integers(-(2**62), 2**62))
    columns = {
        column.name: make_values(column.dtype, size, random.choice(["random", "constant", "few"]), random)
        for column in schema.columns
    }
    pairs = [make_pairs(size, random) if has_pairs else None for _ in range(2)]
    return PointCloud("tracking", event_id, event, columns, *pairs)


def make_values(dtype, size, kind, random):
    if kind == "constant":
        return np.full(size, 1, dtype)
    if dtype == "bool":
        return random.random(size) < 0.3
    if kind == "few":
        return random.integers(-3, 3, size).astype(dtype)
    # Every pattern of bits, NaN and infinity among them.
    return np.frombuffer(random.bytes(size * np.dtype(dtype).itemsize), dtype)


def make_pairs(size, random):
    ptr = np.concatenate([[0], np.cumsum(random.integers(0, 4, size))]).astype(np.int32)
    return PairList(ptr, random.integers(0, max(size, 1), ptr[-1]).astype(np.int32))


def read_chunk(path, row, number):
    column = pq.read_metadata(path).row_group(row).column(number)
    chunk = Chunk.of(column)
    return chunk, path.read_bytes()[chunk.begin : chunk.begin + chunk.length]


@settings(max_examples=60)
@given(shard=shards())
def test_the_same_arrays_as_pyarrow_gives(tmp_path_factory, shard):
    schema, clouds, has_pairs = shard
    path = tmp_path_factory.mktemp("shard") / "x.parquet"
    record = write_shard(path, clouds, schema, has_pairs=has_pairs)
    columns = list_columns(schema, has_pairs)
    reader = ParquetShard(open_location(path.parent), record, columns)
    for row, cloud in enumerate(clouds):
        expected = arrays_of(cloud, schema, has_pairs)
        for name, values in reader.read(row, list(expected)).items():
            from_arrow = reader._read_with_arrow(row, name)
            assert values.dtype == from_arrow.dtype == expected[name].dtype
            assert values.tobytes() == from_arrow.tobytes() == expected[name].tobytes()
            assert values.flags.writeable
            assert from_arrow.flags.writeable


@settings(max_examples=30)
@given(shard=shards())
def test_all_but_short_lists_go_the_fast_way(tmp_path_factory, shard):
    """Else files would still be read, but slowly, and nobody would notice."""
    schema, clouds, has_pairs = shard
    path = tmp_path_factory.mktemp("shard") / "x.parquet"
    write_shard(path, clouds, schema, has_pairs=has_pairs)
    for row, cloud in enumerate(clouds):
        for number, (name, values) in enumerate(arrays_of(cloud, schema, has_pairs).items()):
            chunk, page = read_chunk(path, row, 3 + number)
            found = decode_page(memoryview(page), chunk, values.dtype)
            if name in PAIR_NAMES:
                # A list of a few numbers does not become smaller: pyarrow leaves it uncompressed.
                assert found is not None or len(values) < 100
            else:
                assert (found is None) == (len(values) == 0), name
            assert found is None or found.tobytes() == values.tobytes()


@settings(max_examples=30)
@given(shard=shards())
def test_polars_and_duckdb_read_the_same(tmp_path_factory, shard):
    pl, duckdb = (
        pytest.importorskip("polars", reason="comes with the extra [dev]"),
        pytest.importorskip("duckdb", reason="comes with the extra [dev]"),
    )
    schema, clouds, has_pairs = shard
    path = tmp_path_factory.mktemp("shard") / "x.parquet"
    write_shard(path, clouds, schema, has_pairs=has_pairs)
    tables = [pq.read_table(path, page_checksum_verification=True), pl.read_parquet(path).to_arrow()]
    if clouds:
        tables.append(duckdb.sql(f"select * from read_parquet('{path}')").to_arrow_table())
    for table in tables:
        assert table["event_id"].to_pylist() == [cloud.event_id for cloud in clouds]
        for row, cloud in enumerate(clouds):
            for name, values in arrays_of(cloud, schema, has_pairs).items():
                np.testing.assert_array_equal(table[name][row].as_py(), values)


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "1.0"},
        {"use_dictionary": True},
        {"write_page_checksum": False},
        {"compression": "gzip"},
        {"column_encoding": {"x.list.element": "DELTA_BINARY_PACKED"}},
    ],
    ids=str,
)
def test_pages_of_another_form_are_left_to_pyarrow(tmp_path, options):
    path = tmp_path / "x.parquet"
    table = pa.table({"x": pa.array([list(range(100))], pa.large_list(pa.int32()))})
    plain = {"data_page_version": "2.0", "write_page_checksum": True, "use_dictionary": False}
    plain |= {"column_encoding": {"x.list.element": "PLAIN"}, "compression": "zstd"}
    changed = plain | options
    if options.get("use_dictionary"):
        del changed["column_encoding"]
    pq.write_table(table, path, **changed)
    chunk, page = read_chunk(path, 0, 0)
    assert decode_page(memoryview(page), chunk, np.dtype("int32")) is None


def test_a_wrong_checksum_is_an_error(tmp_path, make_cloud):
    path = tmp_path / "x.parquet"
    write_shard(path, [make_cloud()], TRACKING)
    chunk, page = read_chunk(path, 0, 3)
    damaged = bytearray(page)
    damaged[-1] ^= 1
    assert zlib.crc32(damaged) != zlib.crc32(page)
    with pytest.raises(ChecksumError):
        decode_page(memoryview(damaged), chunk, np.dtype("int32"))


def test_the_footer_tells_readers_what_to_skip(tmp_path, make_cloud):
    events, path = (7, 2**40), tmp_path / "x.parquet"
    write_shard(path, [make_cloud(event_id=event, n_points=event % 9) for event in events], TRACKING)
    metadata = pq.read_metadata(path)
    for row, event in enumerate(events):
        statistics = metadata.row_group(row).column(0).statistics
        assert (statistics.min, statistics.max, statistics.null_count) == (event, event, 0)
    assert pq.read_table(path, filters=[("event_id", "<", 8)])["n_points"].to_pylist() == [7]
