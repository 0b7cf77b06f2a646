"""Builds on a Dask cluster, for Slurm, HTCondor and Kubernetes.

In: shard jobs; out: their notes. If a worker dies, the scheduler gives its shard to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hepdata.errors import HeptError, InputError, JobError, missing_extra
from hepdata.pipeline.event_source import EventSource
from hepdata.pipeline.shard import ShardJob, ShardNote, build_shard


class DaskCluster:
    """Workers of a Dask cluster.

    Args:
        workers: Processes of the cluster that is started if no scheduler is given.
        scheduler: Address of a running scheduler, e.g. "tcp://node1:8786", or the path of its scheduler file.
    """

    def __init__(self, workers: int, scheduler: str | None) -> None:
        self.workers = workers
        self.scheduler = scheduler

    def run(
        self, source: EventSource, jobs: Sequence[ShardJob], tick: Callable[[int], None]
    ) -> Iterator[tuple[ShardJob, ShardNote]]:
        """Build every shard.

        Raises:
            InputError: Dask is not installed, or no scheduler answers.
            JobError: Workers do not start, a shard killed several workers, or the scheduler does not answer.
        """
        try:
            from distributed import as_completed
        except ImportError as error:
            raise missing_extra("distributed", "dask") from error
        client, cluster = self._connect()
        try:
            # Not scattered: scattered data is lost with its worker, and scattering to a dying one hangs.
            held = client.submit(_hold, source, pure=False)
            waiting = {client.submit(build_shard, held, job, pure=False): job for job in jobs}
            for future in as_completed(list(waiting)):  # type: ignore[no-untyped-call]
                note = _result(future, waiting[future])
                tick(len(waiting[future].plan.events))
                yield waiting[future], note
        finally:
            client.close()
            if cluster is not None:
                cluster.close()

    def _connect(self) -> tuple[Any, Any]:
        from distributed import Client, LocalCluster

        if self.scheduler is None:
            try:
                cluster = LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address=":0"
                )
                return Client(cluster), cluster  # type: ignore[no-untyped-call]
            except (RuntimeError, OSError) as error:
                raise JobError(
                    "Dask",
                    found=f"workers that did not start ({error})",
                    expected="processes that live, and ports of this machine that they can open",
                    remedy="look at the memory, give fewer `workers`, or run the same command again",
                ) from error
        try:
            if self.scheduler.endswith(".json"):
                # Dask would wait forever for a missing file.
                Path(self.scheduler).stat()
                return Client(scheduler_file=self.scheduler, timeout=5), None  # type: ignore[no-untyped-call]
            return Client(self.scheduler, timeout=5), None  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                "`scheduler`",
                found=f"no answer from {self.scheduler!r}",
                expected="the address of a running Dask scheduler, like tcp://host:8786",
                remedy="start one with `dask scheduler`, or omit `scheduler` to start one on this machine",
            ) from error


def _hold(source: EventSource) -> EventSource:
    """Have the source on the cluster as the result of a task, which is made again where a worker dies."""
    return source


def _result(future: Any, job: ShardJob) -> ShardNote:
    try:
        note: ShardNote = future.result()
    except HeptError:
        raise
    except Exception as error:
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        if not isinstance(error, KilledWorker | CancelledError | OSError):
            raise
        raise JobError(
            job.staging / job.plan.name,
            found=f"a Dask cluster that failed to build it ({type(error).__name__})",
            expected="workers that live long enough to write a shard",
            remedy="look at the workers' memory and logs, then run the same command again: it continues",
        ) from error
    return note
