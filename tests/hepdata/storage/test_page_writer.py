"""Files made page by page hold what Arrow's own writer would have stored, for every reader of Parquet."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.cloud import PairList, PointCloud
from hepdata.schema import TRACKING, Column, Schema
from hepdata.storage.columns import arrays_of, arrow_schema, list_columns
from hepdata.storage.pages import INDEX_DTYPE, LZ4, UNCOMPRESSED
from hepdata.storage.parquet import write_shard
from hepdata.storage.parquet_reader import ParquetShard
from hepdata.storage.place import open_place

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
    # Large and small, negative ids too: statistics are signed.
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


def write_with_arrow(path, clouds, schema, has_pairs):
    """The same file as Arrow's writer makes it: plain values, one row group a cloud."""
    layout = arrow_schema(schema, has_pairs)
    with pq.ParquetWriter(path, layout, compression="none", use_dictionary=False) as writer:
        for cloud in clouds:
            row = [cloud.event_id, cloud.sector, cloud.n_points]
            cells = [pa.array([value], layout.field(i).type) for i, value in enumerate(row)]
            for name, values in arrays_of(cloud, schema, has_pairs).items():
                kind = layout.field(name).type
                cells.append(
                    pa.LargeListArray.from_arrays(
                        pa.array([0, len(values)], pa.int64()), pa.array(values), type=kind
                    )
                )
            writer.write_table(pa.Table.from_arrays(cells, schema=layout))


def index_row_group(content, offset):
    """One `INDEX_DTYPE` entry for each page of a row group that lies at `offset`, as the page headers say."""
    entries, start = [], 0
    while start < len(content):
        header, header_length = read_struct(content, start)
        data = header[8]
        levels = data[5] + data[6]
        length = header_length + header[3]
        entries.append(
            (
                offset + start,
                length,
                header_length + levels,
                data[1] - data[2],
                header[2] - levels,
                xxhash.xxh3_64_intdigest(content[start : start + length]),
                LZ4 if data.get(7, True) else UNCOMPRESSED,
            )
        )
        start += length
    return np.array(entries, dtype=INDEX_DTYPE)


# Thrift's compact protocol, as far as page headers use it: field types 1, 2 are booleans, 3–6 integers,
# 8 binary, 12 a struct.


def read_struct(content, start):
    fields = {}
    position, field = start, 0
    while content[position]:
        kind, step = content[position] & 15, content[position] >> 4
        position += 1
        if step:
            field += step
        else:
            field, position = read_integer(content, position)
        if kind in (1, 2):
            fields[field] = kind == 1
        elif kind == 12:
            fields[field], length = read_struct(content, position)
            position += length
        elif kind == 8:
            length, position = read_varint(content, position)
            position += length
        else:
            fields[field], position = read_integer(content, position)
    return fields, position + 1 - start


def read_integer(content, position):
    number, position = read_varint(content, position)
    return (number >> 1) ^ -(number & 1), position


def read_varint(content, position):
    number = shift = 0
    while True:
        byte = content[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7


def assert_same(found, expected):
    """Equal to the last bit: NaN equals itself."""
    assert found.column_names == expected.column_names
    assert len(found) == len(expected)
    for name in expected.column_names:
        for a, b in zip(found[name].to_pylist(), expected[name].to_pylist(), strict=True):
            np.testing.assert_array_equal(a, b)


@settings(max_examples=60)
@given(shard=shards())
def test_arrow_polars_and_duckdb_read_what_arrow_would_have_written(tmp_path_factory, shard):
    pl, duckdb = (
        pytest.importorskip("polars", reason="comes with the extra [dev]"),
        pytest.importorskip("duckdb", reason="comes with the extra [dev]"),
    )
    schema, clouds, has_pairs = shard
    folder = tmp_path_factory.mktemp("shard")
    ours, theirs = folder / "ours.parquet", folder / "theirs.parquet"
    write_shard(ours, clouds, schema, has_pairs=has_pairs)
    write_with_arrow(theirs, clouds, schema, has_pairs)
    found = pq.read_table(ours, page_checksum_verification=True)
    expected = pq.read_table(theirs)
    assert_same(found, expected)
    assert found.schema.remove_metadata().equals(expected.schema.remove_metadata(), check_metadata=True)
    assert pq.ParquetFile(ours).schema.equals(pq.ParquetFile(theirs).schema)
    assert_same(pl.read_parquet(ours).to_arrow(), pl.read_parquet(theirs).to_arrow())
    if clouds:
        query = "select * from read_parquet('{}')"
        assert_same(
            duckdb.sql(query.format(ours)).to_arrow_table(), duckdb.sql(query.format(theirs)).to_arrow_table()
        )


@settings(max_examples=40)
@given(shard=shards())
def test_the_index_is_what_the_pages_say(tmp_path_factory, shard):
    """Headers are read back by a parser of their own, and values by the package's reader."""
    schema, clouds, has_pairs = shard
    path = tmp_path_factory.mktemp("shard") / "x.parquet"
    record = write_shard(path, clouds, schema, has_pairs=has_pairs)
    columns = list_columns(schema, has_pairs)
    reader = ParquetShard(open_place(path.parent), record, columns)
    content, metadata = path.read_bytes(), pq.read_metadata(path)
    for row, cloud in enumerate(clouds):
        group = metadata.row_group(row)
        chunks = [group.column(i) for i in range(group.num_columns)]
        begin = chunks[0].data_page_offset
        size = sum(chunk.total_compressed_size for chunk in chunks)
        entries = index_row_group(content[begin : begin + size], begin)
        assert entries.dtype == INDEX_DTYPE
        assert [tuple(entry) for entry in entries.tolist()[3:]] == reader._index[row * len(columns) :][
            : len(columns)
        ]
        assert entries["offset"].tolist() == [chunk.data_page_offset for chunk in chunks]
        assert entries["length"].tolist() == [chunk.total_compressed_size for chunk in chunks]
        assert (entries["head"] + entries["raw"]).tolist() == [c.total_uncompressed_size for c in chunks]
        assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
        arrays = arrays_of(cloud, schema, has_pairs)
        for name, values in reader.read(row, list(arrays)).items():
            assert values.dtype == arrays[name].dtype
            assert values.tobytes() == arrays[name].tobytes()


def test_the_footer_tells_readers_what_to_skip(tmp_path, make_cloud):
    events, path = (7, 2**40), tmp_path / "x.parquet"
    write_shard(path, [make_cloud(event_id=event, n_points=event % 9) for event in events], TRACKING)
    metadata = pq.read_metadata(path)
    for row, event in enumerate(events):
        statistics = metadata.row_group(row).column(0).statistics
        assert (statistics.min, statistics.max, statistics.null_count) == (event, event, 0)
    assert pq.read_table(path, filters=[("event_id", "<", 8)])["n_points"].to_pylist() == [7]
