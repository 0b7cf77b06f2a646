"""Shards: what is written comes back, from this package and from Arrow; bytes depend on the clouds alone."""

import hashlib
import weakref

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import InputError
from hepdata.schema import PILEUP, SCHEMAS, TRACKING
from hepdata.storage.columns import list_columns
from hepdata.storage.location import open_location
from hepdata.storage.parquet.reader import ParquetShard
from hepdata.storage.parquet.writer import write_shard


def open_written(path, record, schema):
    return ParquetShard(open_location(path.parent), record, list_columns(schema, record.has_pairs))


def names_of(schema, has_pairs):
    return [column.name for column in list_columns(schema, has_pairs)]


@settings(max_examples=20)
@given(
    sizes=st.lists(st.integers(0, 40), max_size=4),
    task=st.sampled_from(["tracking", "pileup"]),
    seed=st.integers(0, 9),
)
def test_clouds_come_back_exactly(tmp_path_factory, make_cloud, sizes, task, seed):
    path = tmp_path_factory.mktemp("shard") / "x.parquet"
    clouds = [make_cloud(task, n, event_id=i, seed=seed) for i, n in enumerate(sizes)]
    record = write_shard(path, clouds, SCHEMAS[task])
    reader = open_written(path, record, SCHEMAS[task])
    assert record.rows == len(reader.rows) == len(clouds)
    for row, cloud in enumerate(clouds):
        arrays = reader.read(row, names_of(SCHEMAS[task], record.has_pairs))
        for name, values in cloud.columns.items():
            assert arrays[name].dtype == values.dtype
            np.testing.assert_array_equal(arrays[name], values)
        if cloud.positives is not None:
            np.testing.assert_array_equal(arrays["pos_idx"], cloud.positives.idx)
            np.testing.assert_array_equal(arrays["neg_ptr"], cloud.negatives.ptr)


def test_arrow_reads_the_same_values(tmp_path, make_cloud):
    clouds = [make_cloud(n_points=n, event_id=n) for n in (7, 0, 300)]
    record = write_shard(tmp_path / "x.parquet", clouds, TRACKING)
    table = pq.read_table(tmp_path / "x.parquet", page_checksum_verification=True)
    reader = open_written(tmp_path / "x.parquet", record, TRACKING)
    assert table["n_points"].to_pylist() == [7, 0, 300]
    for row in range(3):
        for name, values in reader.read(row, names_of(TRACKING, True)).items():
            assert table[name][row].as_py() == values.tolist()


def test_special_numbers_survive(tmp_path, make_cloud):
    cloud = make_cloud("pileup", 6)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38], np.float32)
    cloud = PointCloud("pileup", 1, 0, {**cloud.columns, "eta": odd})
    record = write_shard(tmp_path / "x.parquet", [cloud], PILEUP)
    found = open_written(tmp_path / "x.parquet", record, PILEUP).read(0, ["eta"])["eta"]
    assert found.tobytes() == odd.tobytes()


def test_arrays_can_be_written_to(tmp_path, make_cloud):
    """Torch shares memory with them and would warn of a constant array."""
    record = write_shard(tmp_path / "x.parquet", [make_cloud(n_points=400)], TRACKING)
    arrays = open_written(tmp_path / "x.parquet", record, TRACKING).read(0, names_of(TRACKING, True))
    assert all(values.flags.writeable for values in arrays.values())


def test_one_row_group_per_cloud_and_units_in_the_fields(tmp_path, make_cloud):
    write_shard(tmp_path / "x.parquet", [make_cloud(event_id=i) for i in range(3)], TRACKING)
    file = pq.ParquetFile(tmp_path / "x.parquet")
    assert file.metadata.num_row_groups == 3
    assert file.schema_arrow.field("r").metadata[b"unit"] == b"mm"
    assert b"beam" in file.schema_arrow.field("r").metadata[b"meaning"]
    assert file.schema_arrow.names[-4:] == ["pos_ptr", "pos_idx", "neg_ptr", "neg_idx"]


def test_bytes_depend_on_the_clouds_alone(tmp_path, make_cloud):
    clouds = [make_cloud(n_points=50, event_id=i) for i in range(3)]
    first = write_shard(tmp_path / "a.parquet", clouds, TRACKING)
    second = write_shard(tmp_path / "b.parquet", iter(clouds), TRACKING)
    assert first.sha256 == second.sha256
    content = (tmp_path / "a.parquet").read_bytes()
    assert hashlib.sha256(content).hexdigest() == first.sha256
    assert len(content) == first.bytes


def test_record_counts_what_was_written(tmp_path, make_cloud):
    clouds = [make_cloud(n_points=n, event_id=4, sector=s) for s, n in enumerate((5, 9))]
    record = write_shard(tmp_path / "x.parquet", clouds, TRACKING)
    assert record.event_ids == [4]
    assert record.statistics.n_points == 14
    assert (record.statistics.n_points_min, record.statistics.n_points_max) == (5, 9)
    assert record.statistics.n_negatives == sum(cloud.negatives.n_pairs for cloud in clouds)
    particles = sum(len(set(cloud.particle_id.tolist()) - {0}) for cloud in clouds)
    assert record.statistics.counts["particles"] == particles
    assert record.statistics.columns["eta"].maximum == max(float(cloud.eta.max()) for cloud in clouds)


def test_pair_indices_of_neighbours_cost_less_than_a_byte(tmp_path, make_cloud):
    """Points along a curve have neighbours with nearby indices, the same for many points in a row."""
    n, k = 2000, 64
    starts = np.clip(np.arange(n) // 4 * 4 - k // 2, 0, n - k)
    pairs = PairList(
        (np.arange(n + 1) * k).astype(np.int32), (starts[:, None] + np.arange(k)).ravel().astype(np.int32)
    )
    cloud = make_cloud(n_points=n, pairs=False)
    bare = write_shard(tmp_path / "a.parquet", [cloud], TRACKING)
    paired = PointCloud("tracking", 1, 0, cloud.columns, pairs, pairs)
    full = write_shard(tmp_path / "b.parquet", [paired], TRACKING)
    assert (full.bytes - bare.bytes) / (2 * n * k) < 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": None}, "found no column 'eta'"),
        ({"eta": np.zeros(3, np.float32)}, "found 3 values of type float32; expected 20 values"),
        ({"eta": np.zeros(20)}, "found 20 values of type float64"),
    ],
)
def test_a_cloud_that_does_not_fit_is_refused(tmp_path, make_cloud, change, message):
    good = make_cloud()
    columns = {name: change.get(name, values) for name, values in good.columns.items()}
    columns = {name: values for name, values in columns.items() if values is not None}
    cloud = PointCloud("tracking", 1, 0, columns, good.positives, good.negatives)
    with pytest.raises(InputError, match=message):
        write_shard(tmp_path / "x.parquet", [cloud], TRACKING)
    assert list(tmp_path.iterdir()) == []


def test_pairs_of_other_points_are_refused(tmp_path, make_cloud):
    good, other = make_cloud(n_points=20), make_cloud(n_points=19)
    cloud = PointCloud("tracking", 1, 0, good.columns, other.positives, good.negatives)
    with pytest.raises(InputError, match="expected 20 rows"):
        write_shard(tmp_path / "x.parquet", [cloud], TRACKING)


def test_more_pairs_than_a_page_holds_are_refused(tmp_path, make_cloud, monkeypatch):
    monkeypatch.setattr("hepdata.storage.columns.MAX_PAIRS", 10)
    with pytest.raises(InputError, match=r"pairs neg: found .* pairs; expected at most 10: one Parquet page"):
        write_shard(tmp_path / "x.parquet", [make_cloud(n_points=6)], TRACKING)


def test_only_one_cloud_is_held_at_a_time(tmp_path, make_cloud):
    alive = []

    def clouds():
        for event in range(6):
            cloud = make_cloud(event_id=event)
            alive.append(weakref.ref(cloud))
            yield cloud
            del cloud
            assert sum(own() is not None for own in alive) <= 2

    assert write_shard(tmp_path / "x.parquet", clouds(), TRACKING).rows == 6


def test_pairs_in_some_clouds_only_are_refused(tmp_path, make_cloud):
    clouds = [make_cloud(event_id=1), make_cloud(event_id=2, pairs=False)]
    with pytest.raises(InputError, match="event 2, sector 0: found no pair lists"):
        write_shard(tmp_path / "x.parquet", clouds, TRACKING)
    assert list(tmp_path.iterdir()) == []
