"""What inspect finds in files that fit, that do not, and that cannot be labelled."""

import numpy as np
import pytest
import uproot

from hepdata.errors import InputError
from hepdata.pipeline.pileup_inspect import inspect_file


def test_simulated_file(pileup_file):
    seen = inspect_file(str(pileup_file), entry=4)
    tree = uproot.open(pileup_file)["Delphes"]
    leaf = {name: tree[f"PF.{name}"].array(library="np")[4] for name in ("PT", "Charge", "IsPU")}
    is_scored = (leaf["Charge"] == 0) & (leaf["PT"] > 0.9)
    assert seen.chosen == "pf"
    assert seen.n_in_event == {"PF": len(leaf["PT"])}
    assert seen.event.n_points == len(leaf["PT"])
    assert seen.event.n_charged == np.sum(leaf["Charge"] != 0)
    assert seen.event.n_scored == np.sum(is_scored)
    assert seen.event.n_leading == np.sum(leaf["IsPU"] == 0)
    assert seen.event.n_scored_leading == np.sum(is_scored & (leaf["IsPU"] == 0))
    assert seen.fits[0].computed == ()
    assert seen.fits[0].labels == {"PF": "IsPU"}
    assert "no branch 'EFlowTrack'" in seen.fits[2].reason


def test_file_with_two_layouts(candidate_file):
    seen = inspect_file(str(candidate_file))
    assert [bool(fit.reason) for fit in seen.fits] == [False, False, True]
    assert [fit.label_reason for fit in seen.fits[:2]] == ["", ""]
    assert seen.fits[1].computed == ("px", "py", "rapidity")


def test_file_without_pileup(eflow_file):
    seen = inspect_file(str(eflow_file), entry=1)
    assert seen.chosen == "eflow"
    assert "cannot be labelled" in seen.fits[2].label_reason
    assert seen.event.n_leading is None
    assert seen.n_in_event == {"EFlowTrack": 25, "EFlowPhoton": 12, "EFlowNeutralHadron": 8, "Particle": 50}
    assert (seen.event.n_points, seen.event.n_dropped) == (25 - 1 + 12 + 8, 1)


def test_real_file_with_pileup(real_file):
    seen = inspect_file(str(real_file("data/delphes/ttbar_PU50_PF_small_6ev.root")))
    assert [bool(fit.reason) for fit in seen.fits] == [False, False, True]
    assert [fit.label_reason for fit in seen.fits[:2]] == ["", ""]
    assert seen.fits[1].computed == ("px", "py", "rapidity")


def test_real_file_without_pileup(real_file):
    seen = inspect_file(str(real_file("data/delphes/coffea_delphes.root")))
    assert seen.chosen == "eflow"
    assert "no pileup particle" in seen.fits[2].label_reason
    assert seen.fits[2].labels["EFlowPhoton"] == "TRefArray"
    assert seen.event.n_leading == seen.event.n_points
    assert seen.n_in_event["EFlowPhoton"] == 175


def test_file_that_no_preset_fits(write_delphes):
    seen = inspect_file(write_delphes({"Jet": [{"PT": [1.0, 2.0]}]}))
    assert seen.chosen is None
    assert seen.event is None
    assert seen.n_in_event == {"Jet": 2}


def test_map_of_a_user(write_delphes, make_particles, tmp_path):
    path = write_delphes({"Mine": [make_particles(5)]})
    text = "collections: [{branch: Mine, leaves: {pt: PT, eta: Eta, phi: Phi, charge: Charge}, label: IsPU}]"
    (tmp_path / "map.yaml").write_text(text)
    seen = inspect_file(path, branches=str(tmp_path / "map.yaml"))
    assert seen.chosen == "map.yaml"
    assert seen.fits[-1].computed == ("px", "py", "energy", "rapidity")
    assert seen.event.n_points == 5


def test_event_with_nothing_in_it(write_delphes, make_particles):
    seen = inspect_file(write_delphes({"PF": [make_particles(0), make_particles(4)]}))
    assert seen.event.n_points == 0


def test_no_such_event(pileup_file):
    with pytest.raises(
        InputError, match=r"found 12 events; expected an event 12; choose `event` between 0 and 11"
    ):
        inspect_file(str(pileup_file), entry=12)


def test_event_that_cannot_be_used(write_delphes, make_particles):
    particles = make_particles(4)
    particles["PT"][1] = float("nan")
    with pytest.raises(InputError, match="found nan as pt"):
        inspect_file(write_delphes({"PF": [particles]}))
