"""Events that cannot be used: they stop a build, or are skipped and recorded."""

import pytest

import hepdata
from hepdata.errors import InputError
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking
from hepdata.storage.dataset.manifest import Manifest

SIXTY = TRACKING_PRESETS["tracking-60k"]


def test_an_unusable_event_stops_the_build_and_is_named(trackml_copy, tmp_path):
    (trackml_copy / "event000001002-truth.csv").unlink()
    for workers in (1, 2):
        with pytest.raises(InputError, match="event 1002: found no truth file"):
            build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "dataset", workers=workers)
    assert not (tmp_path / "dataset").exists()


def test_an_unusable_event_is_skipped_on_request_and_recorded(trackml_copy, tmp_path):
    (trackml_copy / "event000001002-truth.csv").unlink()
    source = open_tracking(trackml_copy, SIXTY)
    with pytest.raises(InputError, match="event 1002"):
        build_dataset(source, tmp_path / "dataset")
    # The same command, now with leave to skip, goes on with what was done.
    summary = build_dataset(source, tmp_path / "dataset", on_error="skip")
    assert summary.n_resumed == 2
    assert summary.n_events == 5
    (entry,) = Manifest.read(tmp_path / "dataset").skipped
    assert (entry.event_id, entry.source) == (1002, "event000001002")
    assert "no truth file" in entry.reason
    dataset = hepdata.open_dataset(tmp_path / "dataset")
    assert sorted(dataset["train"][i].event_id for i in range(len(dataset["train"]))) == [1000, 1001, 1003]


def test_a_shard_whose_events_are_all_skipped_has_the_columns_of_the_others(trackml_copy, tmp_path):
    import pyarrow.parquet as pq

    (trackml_copy / "event000001001-truth.csv").unlink()
    build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "dataset", on_error="skip")
    files = sorted((tmp_path / "dataset").glob("train-*.parquet"))
    assert pq.read_metadata(files[1]).num_rows == 0
    assert pq.read_schema(files[1]).names == pq.read_schema(files[0]).names


def test_skipping_does_not_move_events_between_splits(trackml_copy, tmp_path, undisturbed):
    (trackml_copy / "event000001000-hits.csv").unlink()
    build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "dataset", on_error="skip")
    ours, whole = Manifest.read(tmp_path / "dataset"), Manifest.read(undisturbed.out)
    for split in ("valid", "test"):
        assert [shard.sha256 for shard in ours.splits[split]] == [s.sha256 for s in whole.splits[split]]


def test_a_build_that_skips_everything(trackml_copy, tmp_path):
    for path in trackml_copy.glob("*-hits.csv"):
        path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"event000001000: found no usable event \(.*found no hits"):
        build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "dataset", on_error="skip")
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_skipped_events_are_looked_at_again_when_asked_to_stop(trackml_copy, tmp_path, edit_csv):
    for path in trackml_copy.glob("*-hits.csv"):
        path.write_text(path.read_text().splitlines()[0] + "\n")
    source = open_tracking(trackml_copy, SIXTY)
    with pytest.raises(InputError, match="no usable event"):
        build_dataset(source, tmp_path / "dataset", on_error="skip")
    with pytest.raises(InputError, match="found no hits"):
        build_dataset(source, tmp_path / "dataset")
