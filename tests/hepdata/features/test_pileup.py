"""Particles to clouds: classes, flags, cuts, order; the order does not reveal the label."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from hepdata.angles import wrap_phi
from hepdata.errors import HeptError
from hepdata.features.pileup import PileupCuts, classify, make_clouds
from hepdata.readers.delphes_events import ParticleTable
from hepdata.schema import PILEUP
from hepdata.simulate.pileup import simulate_event

LABELLED = {"pt", "eta", "phi", "px", "py", "energy", "rapidity"}


def make_table(sizes=(40, 30), seed=0, **changes) -> ParticleTable:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    pt = rng.gamma(2, 0.5, n).astype(np.float32)
    eta = rng.uniform(-5, 5, n).astype(np.float32)
    phi = rng.uniform(-np.pi, np.pi, n).astype(np.float32)
    columns = {
        "pt": pt,
        "eta": eta,
        "phi": phi,
        "px": pt * np.cos(phi),
        "py": pt * np.sin(phi),
        "energy": pt * np.cosh(eta),
        "rapidity": eta,
        "charge": rng.integers(-1, 2, n).astype(np.int32),
        "pid": rng.choice(np.array([22, 130, 211], np.int32), n),
    }
    return ParticleTable(
        5,
        np.concatenate([[0], np.cumsum(sizes)]),
        {**columns, **changes},
        rng.random(n) < 0.3,
        {},
    )


def clouds_of(table, **cuts):
    return list(make_clouds(table, 100, PileupCuts(**cuts), "file.root"))


def test_columns_and_types_are_those_of_the_schema():
    (cloud,) = clouds_of(make_table())[0]
    assert set(cloud.columns) == {column.name for column in PILEUP.columns}
    for column in PILEUP.columns:
        assert cloud.columns[column.name].dtype == column.dtype, column.name
    assert (cloud.event_id, cloud.sector, cloud.n_points) == (100, 0, 40)


def test_every_particle_is_there_once_with_its_own_values():
    table = make_table()
    for number, (cloud,) in enumerate(clouds_of(table)):
        part = slice(table.offsets[number], table.offsets[number + 1])
        assert sorted(cloud.index_in_source) == list(range(cloud.n_points))
        for name in LABELLED | {"charge"}:
            np.testing.assert_array_equal(
                cloud.columns[name], table.columns[name][part][cloud.index_in_source]
            )
        np.testing.assert_array_equal(cloud.is_leading, table.is_leading[part][cloud.index_in_source])


def test_classes():
    pid = np.array([211, 22, 130, 310, -2112, 3122, -3322, 0, 12, 999], np.int32)
    charge = np.array([1, 0, 0, 0, 0, 0, 0, 0, 0, 0], np.int32)
    assert classify(pid, charge).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]
    assert classify(np.array([22], np.int32), np.array([-1], np.int32)).tolist() == [0]


def test_scored_are_neutral_and_above_the_threshold():
    (cloud,) = clouds_of(make_table())[0]
    np.testing.assert_array_equal(cloud.is_scored, (cloud.charge == 0) & (cloud.pt > 0.9))
    pt = np.full(70, 0.9, np.float32)
    (edge,) = clouds_of(make_table(pt=pt))[0]
    assert not edge.is_scored.any()
    (low,) = clouds_of(make_table(), scored_pt=0.2)[0]
    assert low.is_scored.sum() > cloud.is_scored.sum()


def test_acceptance_and_the_count_of_what_it_drops():
    table = make_table()
    eta = table.columns["eta"].copy()
    eta[[3, 7]] = 999.9, -np.inf
    (cloud,) = clouds_of(make_table(eta=eta))[0]
    assert cloud.n_points == 38
    assert cloud.n_dropped == 2
    assert not np.isin([3, 7], cloud.index_in_source).any()
    (central,) = clouds_of(table, max_eta=2.0)[0]
    assert np.abs(central.eta).max() <= 2.0
    assert central.n_dropped == np.sum(np.abs(table.columns["eta"][:40]) > 2.0)


def test_events_without_points_give_nothing():
    first, second, third = clouds_of(make_table(sizes=(0, 4, 0)))
    assert (first, third) == ([], [])
    assert second[0].n_points == 4
    assert clouds_of(make_table(sizes=(4,)), max_eta=1e-6) == [[]]


def test_unlabelled_clouds_have_no_label():
    (cloud,) = clouds_of(replace(make_table(), is_leading=None))[0]
    assert "is_leading" not in cloud.columns


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pt", np.nan),
        ("energy", np.inf),
        ("eta", np.nan),
        ("phi", np.nan),
        ("pt", -0.5),
        ("pt", np.float32(1e30)),
        ("energy", np.float32(-1e20)),
        ("phi", np.float32(1e9)),
        ("charge", 7000),
    ],
)
def test_numbers_that_cannot_be(name, value):
    table = make_table()
    values = table.columns[name].copy()
    values[45] = value
    good, bad = clouds_of(make_table(**{name: values}))
    assert len(good) == 1
    assert isinstance(bad, HeptError)
    assert str(bad).startswith(
        f"file.root, entry 6: found {value} as {name} of particle 5; expected a number"
    )


def test_what_is_dropped_may_be_anything():
    table = make_table()
    eta, energy = table.columns["eta"].copy(), table.columns["energy"].copy()
    eta[3], energy[3] = 999.9, np.inf
    (cloud,) = clouds_of(make_table(eta=eta, energy=energy))[0]
    assert cloud.n_points == 39


def test_problems_of_the_reader_are_passed_on():
    problem = HeptError("x", found="a", expected="b", remedy="c")
    assert clouds_of(replace(make_table(), problems={6: problem}))[1] is problem


def test_phi_is_brought_into_its_interval():
    phi = make_table().columns["phi"].copy()
    phi[0], phi[1] = 4.0, np.float32(np.pi)
    (cloud,) = clouds_of(make_table(phi=phi))[0]
    assert cloud.phi.min() >= -np.pi
    assert cloud.phi.max() < np.pi
    at = np.flatnonzero(cloud.index_in_source == 0)[0]
    assert cloud.phi[at] == pytest.approx(4.0 - 2 * np.pi, abs=1e-6)


def content(cloud, *, without=("index_in_source",)):
    """The points as a set of tuples, whatever their order."""
    names = [name for name in cloud.columns if name not in without]
    return sorted(zip(*(cloud.columns[name].tolist() for name in names), strict=True))


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_order_in_the_file_does_not_matter(seed):
    table = make_table(sizes=(60,))
    order = np.random.default_rng(seed).permutation(60)
    mixed = replace(
        table,
        columns={name: values[order] for name, values in table.columns.items()},
        is_leading=table.is_leading[order],
    )
    (first,), (second,) = clouds_of(table)[0], clouds_of(mixed)[0]
    for name in set(first.columns) - {"index_in_source"}:
        np.testing.assert_array_equal(first.columns[name], second.columns[name])
    np.testing.assert_array_equal(order[second.index_in_source], first.index_in_source)


@settings(max_examples=20)
@given(st.floats(-10, 10))
def test_rotation_changes_only_what_turns(angle):
    table = make_table(sizes=(60,))
    phi = wrap_phi((table.columns["phi"] + np.float32(angle)).astype(np.float32))
    turned = make_table(
        sizes=(60,), phi=phi, px=table.columns["pt"] * np.cos(phi), py=table.columns["pt"] * np.sin(phi)
    )
    turning = ("phi", "px", "py")
    (first,), (second,) = clouds_of(table)[0], clouds_of(turned)[0]
    assert content(first, without=turning) == content(second, without=turning)
    back = np.argsort(first.index_in_source), np.argsort(second.index_in_source)
    difference = wrap_phi(second.phi[back[1]] - first.phi[back[0]] - np.float32(angle))
    np.testing.assert_allclose(difference, 0, atol=1e-5)


def test_place_in_storage_does_not_tell_the_label():
    """The hard collision comes first in the file; stored positions must be no better than a coin."""
    in_file, stored = [], []
    for number in range(12):
        event = simulate_event(20, seed=9, event=number)
        table = _as_table(event)
        (cloud,) = next(make_clouds(table, 0, PileupCuts(), "file"))
        label = cloud.is_leading
        in_file.append(_separation(np.arange(len(event)), table.is_leading))
        stored.append(_separation(np.arange(cloud.n_points), label))
    assert np.mean(in_file) > 0.99
    assert abs(np.mean(stored) - 0.5) < 0.08


def test_ties_on_the_curve_are_broken_by_momentum_not_by_position():
    same = np.full(40, 0.5, np.float32)
    table = make_table(sizes=(40,), eta=same, phi=same)
    (cloud,) = clouds_of(table)[0]
    assert np.all(np.diff(cloud.pt) >= 0)


def _separation(position, label):
    """Probability that a leading particle comes before a pileup one."""
    test = mannwhitneyu(position[~label], position[label])
    return test.statistic / (np.sum(label) * np.sum(~label))


def _as_table(event) -> ParticleTable:
    n = len(event)
    columns = {name: getattr(event, name).astype(np.float32) for name in ("pt", "eta", "phi")}
    columns |= dict.fromkeys(("px", "py", "energy"), columns["pt"]) | {"rapidity": columns["eta"]}
    columns |= {"charge": event.charge, "pid": event.pid}
    return ParticleTable(0, np.array([0, n]), columns, ~event.is_pileup, {})
