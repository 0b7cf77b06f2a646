"""Clouds of ColliderML events: joined by event, exact, without cluster shapes."""

import os
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hepdata
import hept
from hepdata.errors import InputError
from hepdata.features.hit_clouds import CloudChoice
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.colliderml_source import open_colliderml
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, PairChoice, TrackingConfig
from hepdata.readers import colliderml
from hepdata.storage.dataset.manifest import Manifest

ALL = TrackingConfig(CloudChoice(layers="all"), PairChoice("none"))
SIXTY = TRACKING_PRESETS["tracking-60k"]


def read_by_pyarrow(folder, part):
    """All events of one part, event by event, as pyarrow reads them."""
    rows = {}
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        if part in str(path):
            for number, event in enumerate(table["event_id"].to_pylist()):
                rows[event] = {name: table[name][number].values for name in table.column_names[1:]}
    return {event: rows[event] for event in sorted(rows)}


def clouds_of(source):
    answers = [clouds for _, clouds in source.read_clouds(source.list_events())]
    for clouds in answers:
        assert isinstance(clouds, list), clouds
    return [cloud for clouds in answers for cloud in clouds]


def check_against_pyarrow(folder):
    hits, particles = (read_by_pyarrow(folder, part) for part in ("tracker_hits", "particles"))
    clouds = clouds_of(open_colliderml(folder, ALL))
    assert [cloud.event_id for cloud in clouds] == list(hits)
    for cloud in clouds:
        own = {name: values.to_numpy() for name, values in hits[cloud.event_id].items()}
        assert sorted(cloud.hit_id) == list(range(len(own["x"])))
        ordered = {name: values[cloud.hit_id] for name, values in own.items()}
        assert cloud.particle_id.tolist() == ordered["particle_id"].tolist()
        for ours, theirs in (("z", "z"), ("time", "time"), ("module_id", "surface_id")):
            np.testing.assert_array_equal(
                cloud.columns[ours], ordered[theirs].astype(cloud.columns[ours].dtype)
            )
        x, y, z = (ordered[name].astype(np.float64) for name in "xyz")
        np.testing.assert_array_equal(cloud.r, np.hypot(x, y).astype(np.float32))
        np.testing.assert_array_equal(cloud.u, (x / np.hypot(x, y) ** 2).astype(np.float32))
        np.testing.assert_allclose(cloud.phi, np.arctan2(y, x), rtol=1e-6)
        np.testing.assert_allclose(
            cloud.eta, np.arctanh(z / np.sqrt(x * x + y * y + z * z)), rtol=1e-5, atol=1e-6
        )
        known = pd.DataFrame({n: v.to_numpy() for n, v in particles[cloud.event_id].items()}).set_index(
            "particle_id"
        )
        is_known = np.isin(cloud.particle_id, known.index)
        assert 0 < is_known.sum() < len(is_known)
        labels = known.loc[cloud.particle_id[is_known]]
        np.testing.assert_allclose(cloud.pt[is_known], np.hypot(labels.px, labels.py), rtol=1e-6)
        assert cloud.vertex_primary[is_known].tolist() == labels.vertex_primary.tolist()
        assert not cloud.pt[~is_known].any()
        assert not cloud.vertex_primary[~is_known].any()


@pytest.mark.parametrize("layout", ["early", "released"])
def test_values_equal_those_of_pyarrow(write_colliderml, layout):
    check_against_pyarrow(write_colliderml(layout))


def test_values_of_real_events_equal_those_of_pyarrow(real_file):
    check_against_pyarrow(real_file("data/colliderml"))


def test_both_layouts_give_the_same_ids_beyond_two_to_the_53(write_colliderml):
    early, released = (
        clouds_of(open_colliderml(write_colliderml(name, name=name), ALL)) for name in ("early", "released")
    )
    for one, other in zip(early, released, strict=True):
        assert (
            one.particle_id[np.argsort(one.hit_id)].tolist()
            == other.particle_id[np.argsort(other.hit_id)].tolist()
        )
        assert len(np.unique(one.particle_id.astype(np.float64))) < len(np.unique(one.particle_id))


def test_the_schema_has_what_the_files_have(write_colliderml):
    schema = open_colliderml(write_colliderml(), SIXTY).schema
    assert [entry.column for entry in schema.features] == ["r", "phi", "z", "eta", "u", "v", "layer"]
    assert schema.has_column("baseline_track")
    assert not schema.has_column("weight")

    def reduce(events):
        for event in events.values():
            del event["tracks"], event["tracker_hits"]["time"], event["particles"]["vertex_primary"]

    source = open_colliderml(write_colliderml(change=reduce, name="reduced"), ALL)
    assert not {"baseline_track", "time", "vertex_primary"} & {
        column.name for column in source.schema.columns
    }
    assert list(clouds_of(source)[0].columns) == [column.name for column in source.schema.columns]


def test_a_shared_hit_belongs_to_the_longer_track(write_colliderml):
    folder = write_colliderml()
    tracks = read_by_pyarrow(folder, "tracks")
    for cloud in clouds_of(open_colliderml(folder, ALL)):
        first, second, third = (set(one) for one in tracks[cloud.event_id]["hit_ids"].to_pylist())
        assert first & second
        for number, hits in ((7, first - second), (3, second), (9, third)):
            assert set(cloud.hit_id[cloud.baseline_track == number].tolist()) == hits


def test_pixel_layers_are_numbered_in_the_order_of_the_detector(write_colliderml):
    for cloud in clouds_of(open_colliderml(write_colliderml(), SIXTY)):
        assert set(cloud.volume_id.tolist()) <= {16, 17, 18}
        expected = {(16, 4): 0, (17, 2): 7, (17, 4): 8, (17, 6): 9, (17, 8): 10, (18, 2): 11}
        places = zip(cloud.volume_id.tolist(), cloud.layer_id.tolist(), strict=True)
        assert cloud.layer.tolist() == [expected[place] for place in places]
        assert cloud.positives is not None


def test_builds_have_the_same_bytes_whatever_the_workers_and_the_batches(
    write_colliderml, tmp_path, monkeypatch
):
    source = open_colliderml(write_colliderml(), SIXTY)
    alone = build_dataset(source, tmp_path / "alone", events_per_shard=1)
    both = build_dataset(pickle.loads(pickle.dumps(source)), tmp_path / "both", events_per_shard=1, workers=2)
    monkeypatch.setattr(colliderml, "STEP_BYTES", 1)
    small = build_dataset(source, tmp_path / "small", events_per_shard=1)
    assert alone.fingerprint == both.fingerprint == small.fingerprint
    assert Manifest.read(tmp_path / "alone").as_text() == Manifest.read(tmp_path / "both").as_text()
    assert {file.name.split("/")[0] for file in source.list_files()} == {
        f"ttbar_pu0_{part}" for part in ("tracker_hits", "particles", "tracks")
    }


def test_events_are_chosen_by_id_and_read_in_any_order(write_colliderml):
    source = open_colliderml(write_colliderml(), ALL, events=EventRange(1, 4, 3))
    assert [event.event_id for event in source.list_events()] == [1, 2, 3]
    backwards = dict(source.read_clouds(source.list_events()[::-1]))
    for event, clouds in source.read_clouds(source.list_events()):
        assert (clouds[0].hit_id == backwards[event][0].hit_id).all()
    with pytest.raises(InputError, match="no event with an id from 7 on; expected one of the 6 events"):
        open_colliderml(source.root, ALL, events=EventRange(7))


def test_without_particles_the_dataset_is_unlabelled(write_colliderml):
    def forget(events):
        for event in events.values():
            del event["particles"]

    for source in (
        open_colliderml(write_colliderml(change=forget), SIXTY),
        open_colliderml(write_colliderml(name="other"), SIXTY, ignore_truth=True),
    ):
        (cloud, *_) = clouds_of(source)
        assert not {"particle_id", "pt", "vertex_primary"} & set(cloud.columns)
        assert cloud.positives is None


def spoil(part, name, change):
    def apply(events):
        events[2][part][name] = change(events[2][part][name])

    return apply


def set_first(value):
    return lambda values: np.concatenate([[value], np.asarray(values)[1:]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil("tracker_hits", "x", set_first(np.nan)), "event 2: found x from nan"),
        (spoil("tracker_hits", "z", lambda v: v[:-1]), "event 2: found lists of different lengths"),
        (spoil("tracker_hits", "volume_id", set_first(99)), "hit 0 in volume 99, .*`layers`"),
        (spoil("particles", "particle_id", lambda v: np.repeat(v[:1], len(v))), r"found particle \d+ twice"),
        (spoil("particles", "particle_id", set_first(0)), "found a particle with the id 0"),
        (spoil("tracks", "hit_ids", lambda v: [[5000], *v[1:]]), "event 2: found hits .* to 5000 in tracks"),
        (lambda events: events[2].pop("particles"), "event 2: found no particles in any of 2 files"),
        (spoil("tracker_hits", "particle_id", lambda v: v.astype("u8") + 2**63), "particle_id of 9223"),
    ],
    ids=["nan", "length", "layer", "doubled", "zero", "track", "missing", "beyond 63 bits"],
)  # fmt: skip
def test_a_bad_event_is_the_error_of_that_event_alone(write_colliderml, change, message):
    source = open_colliderml(write_colliderml(change=change), ALL)
    answers = {event.event_id: clouds for event, clouds in source.read_clouds(source.list_events())}
    assert [event for event, clouds in answers.items() if isinstance(clouds, InputError)] == [2]
    with pytest.raises(InputError, match=message):
        raise answers[2]


def rewrite(part, change):
    """Change the table of the first file of a part."""

    def apply(folder):
        path = folder / f"ttbar_pu0_{part}" / "train-00000.parquet"
        pq.write_table(change(pq.read_table(path)), path)

    return apply


def replace_column(name, values):
    def change(table):
        return table.set_column(table.schema.get_field_index(name), name, pa.array(values(len(table))))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rewrite("tracker_hits", replace_column("x", np.zeros)), "double in place of a list"),
        (rewrite("tracks", replace_column("track_id", np.arange)), "int64 in place of a list"),
        (
            rewrite("tracker_hits", replace_column("volume_id", lambda n: [[1.5]] * n)),
            "volume_id of type double; expected whole",
        ),
        (rewrite("tracks", replace_column("hit_ids", lambda n: [[["a"]]] * n)), "hit_ids of type list<"),
        (
            rewrite("tracks", replace_column("hit_ids", lambda n: [[[1, None]]] * n)),
            "an empty value in hit_ids",
        ),
        (rewrite("tracker_hits", replace_column("event_id", lambda n: [None] * n)), "event_id of type null"),
        (
            rewrite("tracker_hits", replace_column("event_id", lambda n: [-1 - i for i in range(n)])),
            "event_id of -",
        ),
        (rewrite("tracker_hits", lambda t: t.append_column("event_id", t["event_id"])), "a column twice"),
        (lambda folder: os.mkfifo(folder / "x.parquet"), "found a pipe, a device or a folder"),
    ],
    ids=["flat", "numbers", "halves", "text", "empty", "nulls", "negative", "twice", "pipe"],
)
def test_columns_of_other_types_are_one_line(write_colliderml, tmp_path, change, message):
    folder = write_colliderml()
    change(folder)
    with pytest.raises(InputError, match=message) as error:
        hepdata.build_tracking(folder, tmp_path / "out", layers="all", pairs="none")
    assert len(str(error.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_lists_of_one_length_are_read(write_colliderml):
    folder = write_colliderml()
    expected = [cloud.n_points for cloud in clouds_of(open_colliderml(folder, ALL))]
    path = folder / "ttbar_pu0_particles" / "train-00000.parquet"
    table = pq.read_table(path)
    for name in ("particle_id", "px", "py", "pz", "vertex_primary"):
        kind = table.schema.field(name).type.value_type
        column = table[name].combine_chunks().cast(pa.list_(kind, 30))
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, path)
    assert [cloud.n_points for cloud in clouds_of(open_colliderml(folder, ALL))] == expected


def test_files_that_cannot_be_used(write_colliderml, tmp_path):
    folder = write_colliderml()
    doubled = folder / "again.parquet"
    doubled.write_bytes((folder / "ttbar_pu0_particles" / "train-00000.parquet").read_bytes())
    with pytest.raises(InputError, match=r"the particles of event 0 again, which .*again.parquet holds too"):
        open_colliderml(folder, ALL)
    doubled.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"again.parquet: found a file that cannot be read"):
        open_colliderml(folder, ALL)
    doubled.unlink()
    with pytest.raises(InputError, match="no Parquet file with tracker hits"):
        open_colliderml(folder / "ttbar_pu0_tracks", ALL)
    with pytest.raises(InputError, match=r"`detectors`: found .* with ColliderML's Parquet files"):
        hepdata.build_tracking(folder, tmp_path / "out", detectors="detectors.csv")


def test_damage_after_opening_is_the_error_of_its_events(write_colliderml):
    source = open_colliderml(write_colliderml(), replace(ALL))
    path = source.root / "ttbar_pu0_particles" / "train-00003.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    answers = {event.event_id: clouds for event, clouds in source.read_clouds(source.list_events())}
    assert [event for event, clouds in answers.items() if isinstance(clouds, InputError)] == [3, 4, 5]


def test_memory_is_bounded_by_row_groups_not_files(tmp_path):
    def write(n_events, events_per_group=5, hits=10_000):
        columns = {name: np.linspace(-300, 300, hits, dtype="f4") for name in "xyz"}
        columns |= dict.fromkeys(("volume_id", "layer_id", "surface_id"), np.full(hits, 8, np.uint8))
        lists = {name: pa.array([values] * n_events) for name, values in columns.items()}
        table = pa.table({"event_id": pa.array(range(n_events), pa.uint32())} | lists)
        path = tmp_path / f"{n_events}.parquet"
        pq.write_table(table, path, row_group_size=events_per_group, use_dictionary=False)
        return path

    def find_peak(path):
        source, before, peak = open_colliderml(path, ALL), pa.total_allocated_bytes(), 0
        for event in source.event_ids:
            colliderml.read_event(source.parts, event, with_truth=False)
            peak = max(peak, pa.total_allocated_bytes() - before)
        colliderml._last.__dict__.clear()
        return peak

    colliderml._last.__dict__.clear()
    short, long = (find_peak(write(n_events)) for n_events in (10, 80))
    # 80 events are 12 MB, of which a row group holds 0.75 MB; a few copies of it are in memory.
    assert 0 < short < 6e6
    assert long < 1.1 * short


def test_a_built_dataset_trains_and_raw_events_become_tracks(write_colliderml, tmp_path):
    raw = write_colliderml()
    built = hepdata.build_tracking(raw, tmp_path / "out", layers="pixel+strip")
    assert not hepdata.validate(built)
    run = hept.fit(built, tmp_path / "run", preset="tracking-demo", settings={"epochs": 1})
    model = hept.load_model(run)
    assert model(built["test"][0]).shape[0] == built["test"][0].n_points
    options = {"method": "tree", "threads": 1, "device": "cpu", "layers": "pixel+strip"}
    found = hept.find_raw_tracks(run, raw, tmp_path / "tracks.csv", **options)
    clouds = [cloud for part in built.splits for cloud in built[part]]
    assert (found.n_events, found.n_hits) == (len(clouds), sum(cloud.n_points for cloud in clouds))
