"""Large arrays, read by one thread or two: the same clouds, and the same errors."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import hepdata
from hepdata import threads
from hepdata.cloud import PairList
from hepdata.errors import InputError
from hepdata.schema import TRACKING
from hepdata.storage.finish import finish_dataset
from hepdata.storage.parquet import write_shard
from hepdata.threads import LARGE, side_thread, small_work

N_POINTS = 601
N_CLOUDS = 3


@pytest.fixture(scope="module")
def clouds(make_cloud):
    found = []
    for event_id in range(N_CLOUDS):
        cloud = make_cloud(n_points=N_POINTS, event_id=event_id)
        # Everybody but one another's neighbour, in another order for each cloud; an odd number of them.
        rows = np.sort(np.random.default_rng(event_id).random((N_POINTS, N_POINTS)).argsort(axis=1)[:, 1:])
        ptr = np.arange(N_POINTS + 1, dtype=np.int32) * (N_POINTS - 1)
        ptr[-1] -= 1
        idx = rows.astype(np.int32).reshape(-1)[:-1]
        assert idx.nbytes > LARGE
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


def test_with_and_without_a_side_thread(folder, clouds):
    split = hepdata.open_dataset(folder)["train"]
    with ThreadPoolExecutor(1) as side:
        for index, cloud in enumerate(clouds):
            for beside in (None, side):
                assert_same(split.read_with(beside, index, None, pairs=True), cloud)


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
@pytest.mark.parametrize("way", ["side thread", "alone", "loader"])
def test_damage_in_a_large_array_names_the_shard(folder, tmp_path, clouds, part, way):
    (path,) = (path for path in folder.iterdir() if path.name != "dataset.json")
    content = bytearray(path.read_bytes())
    content[_place_of_negatives(folder, content, clouds[1], part)] ^= 16
    for name in ("dataset.json", path.name):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / path.name).write_bytes(content)
    split = hepdata.open_dataset(tmp_path)["train"]
    with ThreadPoolExecutor(1) as side:
        reads = {
            "loader": lambda: list(split.loader(workers=2)),
            "side thread": lambda: split.read_with(side, 1, None, pairs=True),
            "alone": lambda: split.read_with(None, 1, None, pairs=True),
        }
        with pytest.raises(InputError, match=f"{path.name}.*event 1.*neg_idx"):
            reads[way]()


def _place_of_negatives(folder, content, cloud, part):
    """A byte of the cloud's negative pairs in the file."""
    split = hepdata.open_dataset(folder)["train"]
    reader, row = split._locate(1)
    if folder.joinpath("train.h5").exists():
        begin = bytes(content).index(cloud.negatives.idx.tobytes())
        length = cloud.negatives.idx.nbytes
    else:
        position, _ = reader._columns["neg_idx"]
        begin, length = reader._index[row * len(reader._columns) + position][:2]
    return begin + int(part * length)


def test_only_one_reader_has_the_side_thread():
    if threads.count_cores() < 2:
        pytest.skip("one core: there is no side thread")
    with side_thread() as first, side_thread() as second:
        assert first is not None
        assert second is None
    with side_thread() as again:
        assert again is first


def test_small_work_is_done_by_one_thread_at_a_time():
    with small_work():
        assert not threads._shared.turn.acquire(blocking=False)
    with small_work():
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_has_threads_of_its_own(folder, clouds):
    """As torch's DataLoader makes its workers: threads and locks of the parent do not exist there."""
    split = hepdata.open_dataset(folder)["train"]
    assert_same(split[0], clouds[0])
    with small_work(), side_thread(), split._lock:
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
