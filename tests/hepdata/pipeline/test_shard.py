import pytest

from hepdata.errors import InputError, JobError
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.event_source import EventRef
from hepdata.pipeline.shard import ShardJob, build_shard, read_note
from hepdata.pipeline.split_rule import ShardPlan
from hepdata.schema import TRACKING


class Failing:
    """A source whose events fail in a given way."""

    schema = TRACKING

    def __init__(self, error):
        self.error = error

    def list_events(self):
        return []

    def read_clouds(self, events):
        for event in events:
            if isinstance(self.error, MemoryError):
                raise self.error
            yield event, self.error


def job_in(folder, on_error="stop"):
    plan = ShardPlan("train", "train-00000-of-00001.parquet", (EventRef(7, "event000000007"),))
    return ShardJob(plan, folder, on_error)


def test_a_worker_that_does_not_see_the_staging_folder(tracking_source, tmp_path):
    with pytest.raises(
        JobError, match="no such folder on this worker; expected the output folder on a file sys"
    ):
        build_shard(tracking_source, job_in(tmp_path / "elsewhere"))


def test_memory_that_is_used_up(tmp_path):
    with pytest.raises(JobError, match="no memory left; expected memory for one event per worker"):
        build_shard(Failing(MemoryError()), job_in(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_only_unusable_input_is_skipped(tmp_path):
    words = {"found": "a", "expected": "b", "remedy": "c"}
    note = build_shard(Failing(InputError("event 7", **words)), job_in(tmp_path, "skip"))
    assert [entry.event_id for entry in note.skipped] == [7]
    with pytest.raises(JobError, match="the disk: found a"):
        build_shard(Failing(JobError("the disk", **words)), job_in(tmp_path, "skip"))


def test_a_note_is_believed_only_with_its_shard(tracking_source, tmp_path):
    plan = ShardPlan("train", "train-00000-of-00001.parquet", tuple(tracking_source.list_events()[:1]))
    job = ShardJob(plan, tmp_path, "stop")
    assert read_note(job) is None
    note = build_shard(tracking_source, job)
    assert read_note(job) == note
    shard = tmp_path / plan.name
    shard.write_bytes(shard.read_bytes()[:-1])
    assert read_note(job) is None
    shard.unlink()
    assert read_note(job) is None


def test_a_source_without_events(tmp_path):
    with pytest.raises(InputError, match="the source: found no events"):
        build_dataset(Failing(MemoryError()), tmp_path / "dataset")
