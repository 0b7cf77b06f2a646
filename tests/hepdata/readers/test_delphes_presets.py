"""The choice of a preset: what fits, what is better, and why nothing fits."""

import pytest

from hepdata.errors import InputError
from hepdata.readers.delphes_presets import choose_branches, try_presets

GEN = frozenset({"PT", "Eta", "Phi", "Charge", "PID", "IsPU", "E", "Px", "Py", "Rapidity", "Mass"})
CANDIDATE = frozenset(
    {"PT", "Eta", "Phi", "Charge", "PID", "IsPU", "E", "Mass", "Eem", "Ehad", "HardEnergyFraction"}
)
TRACK = frozenset({"PT", "Eta", "Phi", "Charge", "PID", "Mass"})
TOWER = frozenset({"ET", "Eta", "Phi", "E"})
EFLOW = {"EFlowTrack": TRACK, "EFlowPhoton": TOWER, "EFlowNeutralHadron": TOWER}


def choose(contents, wanted="auto", classes=None):
    return choose_branches(wanted, contents, classes or dict.fromkeys(contents, ""), "file.root")


def test_order_of_preference():
    assert choose({"PF": GEN, "ParticleFlowCandidate": CANDIDATE, **EFLOW}).name == "pf"
    assert choose({"ParticleFlowCandidate": CANDIDATE, **EFLOW}).name == "particle-flow-candidate"
    assert choose(EFLOW).name == "eflow"


def test_labels_weigh_more_than_order():
    assert (
        choose({"PF": GEN - {"IsPU"}, "ParticleFlowCandidate": CANDIDATE}).name == "particle-flow-candidate"
    )
    assert choose({"PF": GEN - {"IsPU"}}).name == "pf"


def test_candidates_by_class_whatever_the_name():
    branches = choose(
        {"Puppi": CANDIDATE, "Other": TRACK}, classes={"Puppi": "ParticleFlowCandidate", "Other": ""}
    )
    assert branches.collections[0].branch == "Puppi"


def test_the_plain_name_first_among_branches_of_the_class():
    contents = {"CandidateCHS": CANDIDATE, "ParticleFlowCandidate": CANDIDATE}
    branches = choose(contents, classes=dict.fromkeys(contents, "ParticleFlowCandidate"))
    assert branches.collections[0].branch == "ParticleFlowCandidate"


def test_candidates_by_leaves_where_the_class_is_not_kept():
    assert choose({"Puppi": CANDIDATE}).collections[0].branch == "Puppi"
    both = {"Another": CANDIDATE, "ParticleFlowCandidate": CANDIDATE}
    assert choose(both).collections[0].branch == "ParticleFlowCandidate"


def test_eflow_merges_three_branches():
    branches = choose(EFLOW)
    assert [item.branch for item in branches.collections] == [
        "EFlowTrack",
        "EFlowPhoton",
        "EFlowNeutralHadron",
    ]
    assert [item.pid for item in branches.collections] == [None, 22, 0]
    assert [item.charge for item in branches.collections] == [None, 0, 0]


def test_reasons_of_all_presets():
    fits = try_presets({"PF": GEN - {"Phi"}}, {"PF": "GenParticle"})
    assert [fit.branches is None for fit in fits] == [True, True, True]
    assert fits[0].reason == "branch 'PF' without phi"
    assert "no branch of class ParticleFlowCandidate" in fits[1].reason
    assert fits[2].reason == "no branch 'EFlowTrack'"


def test_nothing_fits():
    with pytest.raises(InputError, match=r"pf: no branch 'PF'; .*eflow: no branch 'EFlowTrack'"):
        choose({"Jet": frozenset({"PT"})})


def test_named_preset_that_does_not_fit():
    with pytest.raises(InputError, match="found no branch 'PF'; expected the branches of preset 'pf'"):
        choose(EFLOW, "pf")


def test_unknown_preset():
    with pytest.raises(InputError, match="did you mean 'eflow'"):
        choose(EFLOW, "eflo")


def test_map_is_checked_against_the_file(tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text("collections: [{branch: PF, leaves: {pt: PT, eta: Eta, phi: Phi, charge: Charge}}]")
    assert choose({"PF": GEN}, str(path)).name == "map.yaml"
    with pytest.raises(InputError, match="found no branch 'PF'"):
        choose(EFLOW, str(path))
