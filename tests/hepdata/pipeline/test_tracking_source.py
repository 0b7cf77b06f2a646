import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import hepdata
import hept
from benchmarks.published_pairs import list_pairs
from hepdata.errors import InputError
from hepdata.features.hit_clouds import CloudChoice
from hepdata.features.sectors import Sectors
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, PairChoice, TrackingConfig, open_tracking
from hepdata.progress import Silent

SIXTY = TRACKING_PRESETS["tracking-60k"]


def first_clouds(source):
    ((_, clouds),) = source.read_clouds(source.list_events()[:1])
    assert isinstance(clouds, list), clouds
    return clouds


def as_set(cloud):
    edges = np.concatenate([cloud.positives.as_edges(), cloud.negatives.as_edges()], axis=1)
    return set(map(tuple, cloud.hit_id[edges].T.tolist()))


def test_presets():
    assert SIXTY.clouds.sectors.n_sectors == 1
    assert TRACKING_PRESETS["tracking-6k"].clouds.sectors == Sectors(10, 1.3, "published")


def published_pairs(event):
    """The pair list of some hits by the literal procedure, as hit ids."""
    eta, phi = (event[name].to_numpy(np.float32) for name in ("eta", "phi"))
    pairs = list_pairs(eta, phi, event.particle_id.to_numpy())
    return set(map(tuple, event.hit_id.to_numpy()[pairs].T.tolist()))


def test_published_pairs_of_a_simulated_event(trackml_events, read_by_pandas):
    config = replace(SIXTY, pairs=PairChoice("published"))
    (cloud,) = first_clouds(open_tracking(trackml_events, config))
    expected = published_pairs(read_by_pandas(trackml_events))
    assert len(expected) > 1000
    assert as_set(cloud) == expected


def test_published_pairs_of_simulated_sectors(trackml_events, read_by_pandas, is_in_published_sector):
    config = replace(TRACKING_PRESETS["tracking-6k"], pairs=PairChoice("published"))
    event = read_by_pandas(trackml_events)
    clouds = first_clouds(open_tracking(trackml_events, config))
    assert len(clouds) == 10
    for cloud in clouds:
        assert as_set(cloud) == published_pairs(event[is_in_published_sector(event, cloud.sector)])


@pytest.mark.parametrize(
    ("preset", "sector", "golden"),
    [("tracking-60k", 0, "one_sector"), ("tracking-6k", 0, "sector0_of_ten")],
)
def test_published_pairs_of_the_real_event(real_file, preset, sector, golden):
    config = replace(TRACKING_PRESETS[preset], pairs=PairChoice("published"))
    cloud = first_clouds(open_tracking(real_file("data/trackml"), config))[sector]
    expected = np.load(real_file(f"golden/event1_pixel_{golden}.npz"))
    assert as_set(cloud) == set(map(tuple, expected["hit_id"][expected["pairs"]].T.tolist()))


def test_a_zip_gives_the_same_clouds_as_the_folder(trackml_events, tmp_path):
    archive = tmp_path / "events.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for path in sorted(trackml_events.iterdir()):
            target.write(path, path.name)
    folder, zipped = open_tracking(trackml_events, SIXTY), open_tracking(archive, SIXTY)
    for ours, theirs in zip(first_clouds(folder), first_clouds(zipped), strict=True):
        assert all((ours.columns[name] == theirs.columns[name]).all() for name in ours.columns)
        assert (ours.negatives.idx == theirs.negatives.idx).all()
    assert [file.name for file in zipped.list_files()] == ["events.zip"]


def test_a_source_travels_to_other_processes(tracking_source):
    copy = pickle.loads(pickle.dumps(tracking_source))
    assert (first_clouds(copy)[0].hit_id == first_clouds(tracking_source)[0].hit_id).all()


def test_a_source_is_found_from_any_working_folder(trackml_events, tmp_path, monkeypatch):
    monkeypatch.chdir(trackml_events.parent)
    source = open_tracking(
        Path(trackml_events.name), SIXTY, detectors=Path(trackml_events.name, "detectors.csv")
    )
    monkeypatch.chdir(tmp_path)
    assert first_clouds(source)[0].event_id == 1000
    assert "detectors.csv" in {file.name for file in source.list_files()}


def test_files_are_listed_once_with_their_checksum(tracking_source, trackml_events):
    files = tracking_source.list_files()
    assert {file.name for file in files} == {path.name for path in trackml_events.iterdir()}
    assert len(files) == 6 * 4 + 1
    assert all(file.bytes == (trackml_events / file.name).stat().st_size for file in files)


def test_a_build_says_which_files_have_no_last_line_end(trackml_copy):
    class Listener(Silent):
        lines: ClassVar[list[str]] = []

        def announce(self, line):
            self.lines.append(line)

    open_tracking(trackml_copy, SIXTY).list_files(Listener())
    assert not Listener.lines
    for name in ("hits", "truth"):
        path = trackml_copy / f"event000001000-{name}.csv"
        path.write_bytes(path.read_bytes()[:-1])
    open_tracking(trackml_copy, SIXTY).list_files(Listener())
    (line,) = Listener.lines
    assert line.startswith("event000001000-hits.csv and 1 more: no line end after the last line")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (EventRange(1002), [1002, 1003, 1004, 1005]),
        (EventRange(1001, 1003), [1001, 1002, 1003]),
        (EventRange(most=2), [1000, 1001]),
        (EventRange(1004, most=5), [1004, 1005]),
    ],
)
def test_events_are_chosen_by_id_or_count(trackml_events, options, expected):
    source = open_tracking(trackml_events, SIXTY, events=options)
    assert [event.event_id for event in source.list_events()] == expected


def test_no_event_in_the_range(trackml_events):
    with pytest.raises(InputError, match="no event with an id from 5 to 9"):
        open_tracking(trackml_events, SIXTY, events=EventRange(5, 9))


def remove_parts(folder, *parts):
    for part in parts:
        for path in folder.glob(f"*-{part}.csv"):
            path.unlink()


def test_events_without_truth_give_unlabelled_clouds(trackml_copy):
    remove_parts(trackml_copy, "truth", "particles")
    source = open_tracking(trackml_copy, SIXTY)
    (cloud,) = first_clouds(source)
    assert "particle_id" not in cloud.columns
    assert cloud.positives is None
    assert source.describe()["pairs"]["definition"] == "none"
    assert [column.name for column in source.schema.columns] == list(cloud.columns)


def test_truth_can_be_ignored(trackml_events):
    (cloud,) = first_clouds(open_tracking(trackml_events, SIXTY, ignore_truth=True))
    assert "pt" not in cloud.columns


def test_one_event_without_truth_among_others_is_that_events_error(trackml_copy):
    (trackml_copy / "event000001000-truth.csv").unlink()
    source = open_tracking(trackml_copy, SIXTY)
    results = dict(source.read_clouds(source.list_events()[:2]))
    errors = {event.event_id: result for event, result in results.items() if isinstance(result, InputError)}
    assert list(errors) == [1000]
    assert "no truth file" in str(errors[1000])


def test_events_without_cells_need_the_named_choice(trackml_copy):
    remove_parts(trackml_copy, "cells")
    source = open_tracking(trackml_copy, SIXTY)
    ((_, error),) = source.read_clouds(source.list_events()[:1])
    assert isinstance(error, InputError)
    assert "`cell_features=False`" in str(error)
    (trackml_copy / "detectors.csv").unlink()
    config = TrackingConfig(clouds=CloudChoice(has_cell_features=False))
    (cloud,) = first_clouds(open_tracking(trackml_copy, config))
    assert "lx" not in cloud.columns


def test_no_detectors_file(trackml_copy):
    (trackml_copy / "detectors.csv").unlink()
    with pytest.raises(InputError, match=r"no detectors.csv, or more than one.*`detectors`"):
        open_tracking(trackml_copy, SIXTY)


def test_detectors_from_elsewhere(trackml_copy, tmp_path):
    elsewhere = tmp_path / "modules.csv"
    (trackml_copy / "detectors.csv").replace(elsewhere)
    source = open_tracking(trackml_copy, SIXTY, detectors=elsewhere)
    assert first_clouds(source)[0].n_points > 100
    assert source.list_files()[-1].name == "modules.csv"


def test_detectors_from_a_zip(trackml_copy, tmp_path):
    archive = tmp_path / "detectors.zip"
    with zipfile.ZipFile(archive, "w") as target:
        target.write(trackml_copy / "detectors.csv", "detectors.csv")
    (trackml_copy / "detectors.csv").unlink()
    source = open_tracking(trackml_copy, SIXTY, detectors=archive)
    assert first_clouds(source)[0].n_points > 100
    assert source.list_files()[-1].name == "detectors.zip"


def test_a_detectors_file_that_is_missing(trackml_events):
    with pytest.raises(InputError, match=r"nowhere.csv: found a file that cannot be read"):
        open_tracking(trackml_events, SIXTY, detectors=Path("nowhere.csv"))


def test_an_edited_detectors_file_is_read_again(trackml_copy, edit_csv):
    (before,) = first_clouds(open_tracking(trackml_copy, SIXTY))
    edit_csv(trackml_copy / "detectors.csv", lambda table: table.assign(module_t=table.module_t * 2))
    (after,) = first_clouds(open_tracking(trackml_copy, SIXTY))
    assert np.allclose(after.lz, 2 * before.lz)


def test_layers_of_a_list_are_recorded_and_trained_on(strips_copy, tmp_path):
    """The list of a YAML file is in the manifest, so that the dataset can be made again without the file."""
    chosen = tmp_path / "mine.yaml"
    chosen.write_text("layers: [[13, 2], [8, 2], [8, 4], [8, 6], [18, 12]]")
    built = hepdata.build_tracking(strips_copy, tmp_path / "out", layers=str(chosen))
    recorded = built.manifest.configuration["source"]["clouds"]["layers"]
    assert recorded == [[13, 2], [8, 2], [8, 4], [8, 6], [18, 12]]
    cloud = built["train"][0]
    assert set(zip(cloud.volume_id.tolist(), cloud.layer_id.tolist(), cloud.layer.tolist(), strict=True)) == {
        (*place, number) for number, place in enumerate(map(tuple, recorded))
    }
    every = hepdata.build_tracking(strips_copy, tmp_path / "every", layers="all")
    run = hept.fit(every, tmp_path / "run", preset="tracking-demo", settings={"epochs": 1})
    assert hept.evaluate(run, every)
