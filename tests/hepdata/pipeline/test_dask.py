"""The same build on a Dask cluster of real processes."""

import multiprocessing
import os
import signal
import sys

import pytest

from hepdata.errors import InputError, JobError
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.dask import _result
from hepdata.pipeline.event_source import EventRef
from hepdata.pipeline.shard import ShardJob
from hepdata.pipeline.split_rule import ShardPlan
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking

distributed = pytest.importorskip("distributed", reason="needs the extra [dask]: pip install 'hept[dask]'")


class WorkerKiller:
    """Kills one worker process after the first shard."""

    def __init__(self, pids):
        self.pids, self.n_events = list(pids), 0

    def start(self, description, total, unit, *, done=0):
        pass

    def advance(self, steps=1, note=""):
        self.n_events += steps
        if self.pids:
            os.kill(self.pids.pop(), signal.SIGKILL)
            self.pids.clear()

    def finish(self):
        pass


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


def test_same_bytes_although_a_worker_is_killed_in_the_middle(tracking_source, cluster, tmp_path, same_bytes):
    with distributed.Client(cluster) as client:
        pids = client.run(os.getpid).values()
    killer = WorkerKiller(pids)
    build_dataset(
        tracking_source,
        tmp_path / "dataset",
        engine="dask",
        scheduler=cluster.scheduler_address,
        progress=killer,
    )
    assert (killer.n_events, killer.pids) == (6, [])
    same_bytes(tmp_path / "dataset")


def test_an_unusable_event_is_named_from_afar(trackml_copy, cluster, tmp_path):
    (trackml_copy / "event000001002-truth.csv").unlink()
    source = open_tracking(trackml_copy, TRACKING_PRESETS["tracking-60k"])
    with pytest.raises(InputError, match="event 1002: found no truth file"):
        build_dataset(source, tmp_path / "dataset", engine="dask", scheduler=cluster.scheduler_address)


def test_a_cluster_of_its_own(tracking_source, tmp_path, same_bytes):
    build_dataset(tracking_source, tmp_path / "dataset", engine="dask", workers=2)
    same_bytes(tmp_path / "dataset")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "no address at all", "nowhere.json"])
def test_no_scheduler_answers(tracking_source, tmp_path, address):
    with pytest.raises(InputError, match=f"no answer from '{address}'"):
        build_dataset(tracking_source, tmp_path / "dataset", engine="dask", scheduler=address)


def arrive(source, mark):
    """What a `MortalSource` is unpickled with: the first worker dies of it."""
    if multiprocessing.parent_process() is None:
        # The scheduler, which is in this process, unpickles what it sends on.
        return MortalSource(source, mark)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return source


class MortalSource:
    """A source that kills the first worker that receives it."""

    def __init__(self, source, mark):
        self.source, self.mark = source, mark

    def __getattr__(self, name):
        return getattr(self.__dict__["source"], name)

    def __reduce__(self):
        return arrive, (self.source, self.mark)


def test_a_worker_that_is_killed_as_it_receives_the_source(tracking_source, cluster, tmp_path, same_bytes):
    out, mark = tmp_path / "place" / "dataset", tmp_path / "killed"
    out.parent.mkdir()
    source = MortalSource(tracking_source, mark)
    build_dataset(source, out, engine="dask", scheduler=cluster.scheduler_address)
    assert mark.exists()
    same_bytes(out)


def test_workers_that_die_as_they_start(tracking_source, tmp_path, same_bytes):
    import dask

    out = tmp_path / "place" / "dataset"
    out.parent.mkdir()
    (tmp_path / "die.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with (
        dask.config.set({"distributed.worker.preload": [str(tmp_path / "die.py")]}),
        pytest.raises(JobError, match=r"found workers that did not start .*run the same command again"),
    ):
        build_dataset(tracking_source, out, engine="dask", workers=2)
    assert not list(out.parent.iterdir())
    build_dataset(tracking_source, out, engine="dask", workers=2)
    same_bytes(out)


class DeadFuture:
    """A result that the cluster could not get."""

    def __init__(self, error):
        self.error = error

    def result(self):
        raise self.error


@pytest.mark.parametrize("error", [distributed.CancelledError("gone"), OSError("connection lost")])
def test_a_cluster_that_gives_up(tmp_path, error):
    job = ShardJob(ShardPlan("train", "train.parquet", (EventRef(1, "event1"),)), tmp_path, "stop")
    with pytest.raises(JobError, match="a Dask cluster that failed to build it"):
        _result(DeadFuture(error), job)
    with pytest.raises(ZeroDivisionError):
        _result(DeadFuture(ZeroDivisionError()), job)


def test_dask_is_an_extra(tracking_source, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'hept\[dask\]'"):
        build_dataset(tracking_source, tmp_path / "dataset", engine="dask")
