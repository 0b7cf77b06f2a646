"""Augmented clouds against clouds built from raw events that were turned and reflected themselves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hepdata
from hepdata.errors import InputError
from hepdata.features.layers import ODD_LAYERS, TRACKML_LAYERS, mirror_odd, mirror_trackml
from hepdata.loader.augment import Augmentation, keep_points, reflect, rotate
from hepdata.pairs.paper_definition import pair_nearest_others, pair_same_particle

NEGATIVES = 30
DATA = Path(__file__).parents[2] / "data"


def build(raw, out):
    return hepdata.build_tracking(raw, out, split="100/0/0", negatives=NEGATIVES)


@pytest.fixture(scope="module")
def tracks(trackml_events, tmp_path_factory):
    return build(trackml_events, tmp_path_factory.mktemp("tracks") / "d")


@pytest.fixture(scope="module")
def pileup(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pileup")
    hepdata.simulate_pileup(folder / "p.root", events=6, pileup=4)
    return hepdata.build_pileup(folder / "p.root", folder / "d", split="100/0/0")


def assert_same_pairs(found, expected):
    np.testing.assert_array_equal(found.ptr, expected.ptr)
    np.testing.assert_array_equal(found.idx, expected.idx)


def assert_pairs_fit(cloud):
    """The pairs of a cloud are those of the definition, computed again from what it holds."""
    label = cloud.particle_id
    assert_same_pairs(cloud.positives, pair_same_particle(label))
    assert_same_pairs(cloud.negatives, pair_nearest_others(cloud.eta, cloud.phi, label, NEGATIVES))


def compare(expected, found, left_out):
    """The same hits, whatever the order in which they are stored."""
    one, other = np.argsort(expected["hit_id"]), np.argsort(found["hit_id"])
    for name in expected:
        if name in left_out:
            continue
        a, b = expected[name][one], found[name][other]
        if name in ("phi", "gphi"):
            a, b = np.exp(1j * a), np.exp(1j * b)
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6, err_msg=name)


def turn_rows(table, turn):
    """x and y of hits and particles, and the modules of a detector, turned about the beam."""
    c, s = np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)
    pairs = [
        ("x", "y"),
        ("cx", "cy"),
        ("vx", "vy"),
        ("px", "py"),
        *((f"rot_x{k}", f"rot_y{k}") for k in "uvw"),
    ]
    for x, y in pairs:
        if x in table:
            table[x], table[y] = c * table[x] - s * table[y], s * table[x] + c * table[y]
    return table


def mirror_rows(table):
    """Hits, modules and particles reflected at z = 0; endcaps change places, and so do their layers."""
    for name in ("z", "cz", "rot_zu", "rot_zv", "rot_zw", "pz", "vz", "tz", "tpz"):
        if name in table:
            table[name] = -table[name]
    if "volume_id" in table:
        is_end = table.volume_id != 8
        table.loc[is_end, "layer_id"] = 16 - table.layer_id[is_end]
        table["volume_id"] = table.volume_id.map({7: 9, 8: 8, 9: 7})
    return table


def test_a_turned_cloud_is_that_of_the_turned_event(trackml_copy, edit_csv, tracks, tmp_path):
    turn = 0.3
    for path in [*trackml_copy.glob("*-[hp]*.csv*"), *trackml_copy.glob("detectors.csv*")]:
        edit_csv(path, lambda table: turn_rows(table, turn))
    expected = build(trackml_copy, tmp_path / "d")["train"][0]
    before = tracks["train"][0]
    found = rotate(before.columns, turn, tracks.schema)
    assert not np.allclose(found["gphi"], before.gphi)
    compare(expected.columns, found, {"module_id"})


def test_a_reflected_cloud_is_that_of_the_reflected_event(trackml_copy, edit_csv, tracks, tmp_path):
    for path in [*trackml_copy.glob("*-[hpt]*.csv*"), *trackml_copy.glob("detectors.csv*")]:
        edit_csv(path, mirror_rows)
    expected = build(trackml_copy, tmp_path / "d")["train"][0]
    before = tracks["train"][0]
    found = reflect(before.columns, tracks.schema.symmetries)
    assert (found["layer"] != before.layer).any()
    compare(expected.columns, found, {"volume_id", "layer_id", "module_id"})


@pytest.mark.parametrize("seed", range(3))
def test_labels_and_pairs_stay_exactly(tracks, seed):
    augmentation = Augmentation(rotate=True, reflect=True, seed=seed)
    turned = tracks.schema.symmetries.turned | tracks.schema.symmetries.reflected
    for index, before in enumerate(tracks["train"]):
        for epoch in range(3):
            cloud = augmentation.apply(before, epoch, index)
            assert not np.array_equal(cloud.phi, before.phi)
            assert (cloud.phi >= -np.float32(np.pi)).all()
            assert (cloud.phi < np.float32(np.pi)).all()
            assert_pairs_fit(cloud)
            for column in tracks.schema.columns:
                if column.is_label and column.name not in turned:
                    np.testing.assert_array_equal(cloud.columns[column.name], before.columns[column.name])


def test_dropped_points_take_their_pairs_with_them(tracks):
    before = tracks["train"][0]
    cloud = Augmentation(drop=0.3, seed=1).apply(before, 0, 0)
    assert 0.6 < cloud.n_points / before.n_points < 0.8
    assert set(cloud.hit_id.tolist()) < set(before.hit_id.tolist())
    assert_same_pairs(cloud.positives, pair_same_particle(cloud.particle_id))
    # What is left of a row are the nearest of the remaining points, fewer of them.
    every = pair_nearest_others(cloud.eta, cloud.phi, cloud.particle_id, NEGATIVES)
    for point in range(cloud.n_points):
        row, widest = cloud.negatives.row(point), set(every.row(point).tolist())
        assert set(row.tolist()) <= widest
        assert (np.diff(row) > 0).all()
        was = int(np.flatnonzero(before.hit_id == cloud.hit_id[point])[0])
        expected = set(before.hit_id[before.negatives.row(was)].tolist()) & set(cloud.hit_id.tolist())
        assert set(cloud.hit_id[row].tolist()) == expected
    # All or nothing.
    assert (
        keep_points(before, np.ones(before.n_points, dtype=bool)).negatives.n_pairs
        == before.negatives.n_pairs
    )
    assert keep_points(before, np.zeros(before.n_points, dtype=bool)).positives.n_pairs == 0


def test_pileup(pileup):
    before = pileup["train"][0]
    cloud = Augmentation(rotate=True, reflect=True, seed=4).apply(before, 0, 0)
    np.testing.assert_allclose(np.hypot(cloud.px, cloud.py), before.pt, rtol=1e-4)
    np.testing.assert_allclose(
        np.exp(1j * np.arctan2(cloud.py, cloud.px)), np.exp(1j * cloud.phi), rtol=1e-4, atol=1e-4
    )
    both = ((cloud.eta, before.eta), (cloud.rapidity, before.rapidity))
    signs = {np.sign(after @ was) for after, was in both}
    assert len(signs) == 1
    for name in ("pt", "energy", "pid_class", "is_leading", "vertex"):
        np.testing.assert_array_equal(cloud.columns[name], before.columns[name])


def test_every_second_cloud_is_reflected(pileup):
    before = pileup["train"][0]
    augmentation = Augmentation(reflect=True)
    flipped = [augmentation.apply(before, epoch, 0).eta[0] != before.eta[0] for epoch in range(60)]
    assert 15 < sum(flipped) < 45


def describe(loader, epoch):
    loader.set_epoch(epoch)
    return {
        (int(event), round(float(phi), 5), n)
        for batch in loader
        for event, phi, n in zip(
            batch.event_id,
            batch.phi[batch.offsets[:-1]],
            batch.offsets.diff().tolist(),
            strict=True,
        )
    }


def test_the_same_seed_gives_the_same_epoch_however_it_is_read(pileup):
    split = pileup["train"]
    augmentation = Augmentation(rotate=True, drop=0.1, seed=7)
    first = describe(split.loader(1, shuffle=True, augment=augmentation), 3)
    assert describe(split.loader(4, workers=2, augment=augmentation), 3) == first
    assert describe(split.loader(1, prefetch=0, augment=augmentation), 4) != first
    assert describe(split.loader(1, augment=replace(augmentation, seed=8)), 3) != first
    halves = [split.loader(2, rank=rank, world_size=2, augment=augmentation) for rank in (0, 1)]
    assert describe(halves[0], 3) | describe(halves[1], 3) == first
    stopped = split.loader(1, augment=augmentation)
    stopped.set_epoch(3)
    batches = iter(stopped)
    begun = [next(batches).coords[0, 1].item() for _ in range(2)]
    state = stopped.state_dict()
    resumed = split.loader(1, augment=augmentation)
    resumed.load_state_dict(state)
    rest = [batch.coords[0, 1].item() for batch in resumed]
    whole = split.loader(1, augment=augmentation)
    whole.set_epoch(3)
    assert begun + rest == [batch.coords[0, 1].item() for batch in whole]
    with pytest.raises(InputError, match="loader state, augment"):
        split.loader(1, augment=replace(augmentation, drop=0.2)).load_state_dict(state)


def test_a_vector_turns_whole_if_only_one_component_is_read(pileup):
    split = pileup["train"]
    augmentation = Augmentation(rotate=True, seed=1)
    (batch,) = [b for i, b in enumerate(split.loader(1, augment=augmentation)) if i == 0]
    (alone,) = [
        b
        for i, b in enumerate(split.loader(1, select=["px"], features=["px"], augment=augmentation))
        if i == 0
    ]
    np.testing.assert_array_equal(alone.px, batch.px)


@pytest.mark.parametrize(
    ("mirror", "known", "pairs"),
    [
        (
            mirror_trackml,
            TRACKML_LAYERS["pixel+strip"],
            [((7, 2), (9, 14)), ((8, 4), (8, 4)), ((12, 2), (14, 12))],
        ),
        (mirror_odd, ODD_LAYERS["all"], [((16, 4), (18, 14)), ((24, 2), (24, 2)), ((28, 12), (30, 2))]),
    ],
)
def test_opposite_layers(mirror, known, pairs):
    opposite = mirror(known)
    for one, other in pairs:
        assert known[opposite[known.index(one)]] == other
    assert [opposite[i] for i in opposite] == list(range(len(known)))
    assert mirror(known[:1]) is None


def test_datasets_that_do_not_say_how_a_column_changes(tracks, trackml_events, tmp_path):
    old = hepdata.open_dataset(DATA / "v1-tracking-parquet")
    # Every dataset of this task has it.
    assert len(old["train"].loader(1, augment=Augmentation(rotate=True)))
    for features, message in [
        (None, r"found augment.reflect with the input 'layer'; expected.*build the dataset again"),
        (["eta", "volume_id"], "with the input 'volume_id'"),
    ]:
        with pytest.raises(InputError, match=message):
            old["train"].loader(1, features=features, augment=Augmentation(reflect=True))
    assert len(old["train"].loader(1, features=["eta", "z"], augment=Augmentation(reflect=True)))
    few = hepdata.build_tracking(
        trackml_events, tmp_path / "d", define=["tip = x + 1", "far = r > 60"], max_events=1, split="100/0/0"
    )["train"]
    assert len(few.loader(1, features=["far"], augment=Augmentation(rotate=True)))
    with pytest.raises(InputError, match="with the input 'tip'"):
        few.loader(1, features=["tip"], augment=Augmentation(rotate=True))
    with pytest.raises(ValueError, match="need a probability"):
        Augmentation(drop=1.0)


def test_a_wedge_keeps_the_points_of_a_range_of_phi(tracks):
    before, starts = tracks["train"][0], set()
    for epoch in range(4):
        cloud = Augmentation(wedge=0.25, seed=1).apply(before, epoch, 0)
        assert 0.15 < cloud.n_points / before.n_points < 0.35
        left_out = ~np.isin(before.hit_id, cloud.hit_id)
        # The kept points lie within a quarter turn.
        turns = np.sort((cloud.phi - before.phi[left_out][0]) % (2 * np.pi))
        gaps = np.diff(np.r_[turns, turns[0] + 2 * np.pi])
        assert 2 * np.pi - gaps.max() < np.pi / 2
        starts.add(float(cloud.phi[0]))
        assert_same_pairs(cloud.positives, pair_same_particle(cloud.particle_id))
    assert len(starts) > 1


def test_a_wedge_needs_phi_and_a_part_of_a_turn(tracks):
    with pytest.raises(ValueError, match=r"wedge: got 0\.0, need a part of a turn"):
        Augmentation(wedge=0.0)
    with pytest.raises(InputError, match=r"augment\.wedge=0\.5 without the input 'phi'"):
        Augmentation(wedge=0.5).check(tracks.schema, ["eta"], "here")
