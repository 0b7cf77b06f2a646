"""Large pair lists, read by one thread or many: the same clouds, and the same errors."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import hepdata
from hepdata.cloud import PairList
from hepdata.errors import InputError
from hepdata.schema import TRACKING
from hepdata.storage.dataset.finish import finish_dataset
from hepdata.storage.parquet.writer import write_shard

N_POINTS = 601
N_CLOUDS = 3


@pytest.fixture(scope="module")
def clouds(make_cloud):
    found = []
    for event_id in range(N_CLOUDS):
        cloud = make_cloud(n_points=N_POINTS, event_id=event_id)
        # All other points are neighbours, in another order for each cloud; their number is odd.
        rows = np.sort(np.random.default_rng(event_id).random((N_POINTS, N_POINTS)).argsort(axis=1)[:, 1:])
        ptr = np.arange(N_POINTS + 1, dtype=np.int32) * (N_POINTS - 1)
        ptr[-1] -= 1
        idx = rows.astype(np.int32).reshape(-1)[:-1]
        assert idx.nbytes > 2**20
        assert len(idx) % 2
        found.append(replace(cloud, negatives=PairList(ptr, idx)))
    return found


@pytest.fixture(scope="module", params=["parquet", "hdf5"])
def folder(request, tmp_path_factory, clouds):
    base = tmp_path_factory.mktemp("large")
    (base / "staging").mkdir()
    record = write_shard(base / "staging" / "train-00000-of-00001.parquet", clouds, TRACKING)
    finish_dataset(
        base / "staging",
        base / "data",
        schema=TRACKING,
        splits={"train": [record]},
        configuration={},
        file_format=request.param,
    )
    return base / "data"


def assert_same(found, cloud):
    for name, values in cloud.columns.items():
        np.testing.assert_array_equal(found.columns[name], values)
    for ours, theirs in ((found.positives, cloud.positives), (found.negatives, cloud.negatives)):
        np.testing.assert_array_equal(ours.ptr, theirs.ptr)
        np.testing.assert_array_equal(ours.idx, theirs.idx)


def test_clouds_that_are_kept_do_not_change(folder, clouds):
    split = hepdata.open_dataset(folder)["train"]
    kept = [split[i] for i in (0, 1, 2, 0, 1, 2)]
    batches = list(split.loader(workers=2))
    for i, cloud in enumerate(kept):
        assert_same(cloud, clouds[i % 3])
    for batch, cloud in zip(batches, clouds, strict=True):
        np.testing.assert_array_equal(batch.negatives.idx.numpy(), cloud.negatives.idx)


def test_many_threads_read_the_same_clouds(folder, clouds):
    split = hepdata.open_dataset(folder)["train"]
    with ThreadPoolExecutor(4) as pool:
        for index, found in enumerate(pool.map(lambda i: split[i % N_CLOUDS], range(24))):
            assert_same(found, clouds[index % N_CLOUDS])


@pytest.mark.parametrize("part", [0.02, 0.3, 0.5, 0.7, 0.98])
@pytest.mark.parametrize("way", ["index", "loader"])
def test_damage_in_a_large_array_names_the_shard(folder, tmp_path, clouds, part, way):
    (path,) = (path for path in folder.iterdir() if path.name != "dataset.json")
    content = bytearray(path.read_bytes())
    content[_find_negatives(path, content, clouds[1], part)] ^= 16
    for name in ("dataset.json", path.name):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / path.name).write_bytes(content)
    split = hepdata.open_dataset(tmp_path)["train"]
    reads = {"index": lambda: split[1], "loader": lambda: list(split.loader(workers=2))}
    with pytest.raises(InputError, match=f"{path.name}.*event 1.*neg_idx"):
        reads[way]()


def _find_negatives(path, content, cloud, part):
    """A byte of the cloud's negative pairs in the file."""
    if path.suffix == ".h5":
        begin, length = bytes(content).index(cloud.negatives.idx.tobytes()), cloud.negatives.idx.nbytes
    else:
        chunk = pq.read_metadata(path).row_group(1).column(3 + len(TRACKING.columns) + 3)
        assert chunk.path_in_schema == "neg_idx.list.element"
        begin, length = chunk.data_page_offset, chunk.total_compressed_size
    return begin + int(part * length)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_reads_while_its_parent_does(folder, clouds):
    """As torch's DataLoader makes its workers: locks that threads of the parent hold are free there."""
    split = hepdata.open_dataset(folder)["train"]
    assert_same(split[0], clouds[0])
    with split._lock:
        child = os.fork()
        if not child:
            code = 1
            signal.alarm(60)
            try:
                assert_same(split[1], clouds[1])
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
