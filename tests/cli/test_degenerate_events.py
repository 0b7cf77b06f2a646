"""Events with next to nothing in them go through build, validate, info and plot, for both tasks."""

import numpy as np
import pytest


def check_all_commands(hept_data, build, out):
    code, _, errors = hept_data(*build, out)
    assert code == 0, errors
    code, output, errors = hept_data("validate", out)
    assert code == 0, output + errors
    assert hept_data("info", out)[0] == 0
    code, _, errors = hept_data("plot", out, "--out", out.with_name("pictures"))
    assert code == 0, errors


def first_hits(truth, n):
    """Choose hits of particles only: a build refuses an event of nothing but noise."""
    return truth.hit_id[truth.particle_id > 0][:n]


def first_hit(truth):
    return first_hits(truth, 1)


def first_particle(truth):
    return truth.hit_id[truth.particle_id == truth.particle_id[truth.particle_id > 0].iloc[0]]


TRACKING = {
    "1 hit": (first_hit, ()),
    "2 hits": (lambda truth: first_hits(truth, 2), ()),
    "all noise, unlabelled": (lambda truth: truth.hit_id[truth.particle_id == 0], ("--unlabelled",)),
    "one particle": (first_particle, ()),
    "one hit a particle": (lambda t: t.hit_id[(t.particle_id > 0) & ~t.particle_id.duplicated()], ()),
    "unlabelled": (lambda truth: truth.hit_id, ("--unlabelled",)),
    "1 hit, unlabelled": (lambda truth: truth.hit_id[:1], ("--unlabelled",)),
    "1 hit in sectors": (first_hit, ("--preset", "tracking-6k")),
}


@pytest.mark.parametrize("case", TRACKING)
def test_tracking(hept_data, trackml_copy, tmp_path, keep_hits, case):
    chosen, options = TRACKING[case]
    keep_hits(trackml_copy, chosen)
    check_all_commands(hept_data, ("build", "tracking", *options, trackml_copy), tmp_path / "set")


def test_all_noise_is_no_labelled_event(hept_data, trackml_copy, tmp_path, keep_hits):
    keep_hits(trackml_copy, lambda truth: truth.hit_id[truth.particle_id == 0])
    code, _, errors = hept_data("build", "tracking", trackml_copy, tmp_path / "set")
    assert code == 2
    assert "found only noise" in errors
    assert "--unlabelled" in errors


def test_no_event_selected(hept_data, trackml_copy, tmp_path):
    code, _, errors = hept_data("build", "tracking", trackml_copy, tmp_path / "set", "--events", "1-5")
    assert code == 2
    assert "no event with an id from 1 to 5" in errors
    assert not (tmp_path / "set").exists()


PILEUP = {
    "1 particle": (1, {"IsPU": np.ones(1)}),
    "no neutral": (30, {"Charge": np.ones(30), "PID": np.full(30, 211)}),
    "all neutral and soft": (30, {"Charge": np.zeros(30), "PID": np.full(30, 22), "PT": np.full(30, 0.2)}),
    "none leading": (30, {"IsPU": np.ones(30)}),
}


@pytest.mark.parametrize("case", PILEUP)
@pytest.mark.parametrize("options", [(), ("--unlabelled",)], ids=["labelled", "unlabelled"])
def test_pileup(hept_data, write_delphes, tmp_path, case, options):
    n, changes = PILEUP[case]
    check_all_commands(hept_data, ("build", "pileup", *options, write_delphes(n, changes)), tmp_path / "set")


def test_no_pileup_is_no_labelled_sample(hept_data, write_delphes, tmp_path):
    path = write_delphes(30, {"IsPU": np.zeros(30)})
    code, _, errors = hept_data("build", "pileup", path, tmp_path / "set")
    assert code == 2
    assert "no pileup particle in the first 4 events" in errors
    check_all_commands(hept_data, ("build", "pileup", "--unlabelled", path), tmp_path / "unlabelled")


def test_no_particle_selected(hept_data, write_delphes, tmp_path):
    path = write_delphes(5, {"Eta": np.full(5, 999.9)})
    code, _, errors = hept_data("build", "pileup", path, tmp_path / "set")
    assert code == 2
    assert "no points in any of 4 events" in errors
