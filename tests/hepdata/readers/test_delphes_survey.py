"""Whether a sample can be labelled: found out before a build, with the reason."""

import pytest

from hepdata.errors import InputError
from hepdata.readers.delphes import survey_tree
from hepdata.readers.delphes_presets import choose_branches
from hepdata.readers.delphes_survey import LabelCounts, check_counts, check_labelled, count_labels


def judge(path, wanted="auto"):
    survey = survey_tree(str(path))
    branches = choose_branches(wanted, survey.contents, survey.classes, path)
    check_labelled(branches, path)
    counts = count_labels(str(path), branches, survey.contents, 100)
    check_counts(counts, branches, path)
    return counts


def test_good_samples(pileup_file, candidate_file):
    assert judge(pileup_file).is_settled
    assert judge(candidate_file, "pf").n_events == 1
    assert judge(candidate_file, "particle-flow-candidate").n_pileup > 0


def test_a_good_real_sample(real_file):
    real = real_file("data/delphes/ttbar_PU50_PF_small_6ev.root")
    assert judge(real, "pf").n_events == 1
    assert judge(real, "particle-flow-candidate").n_pileup > 0


def test_no_more_events_are_read_than_needed(pileup_file):
    assert judge(pileup_file).n_events < 12


def test_neutral_branches_without_labels(eflow_file):
    with pytest.raises(
        InputError, match=r"branch 'EFlowPhoton' without IsPU.*neutral particles cannot be labelled"
    ):
        judge(eflow_file)


def test_a_real_file_without_pileup(real_file):
    with pytest.raises(InputError, match=r"found no pileup particle in the first 25 events"):
        judge(real_file("data/delphes/coffea_delphes.root"))


def test_branch_without_any_label(write_delphes, make_particles):
    particles = make_particles(4)
    del particles["IsPU"]
    with pytest.raises(
        InputError, match=r"branch 'PF' without IsPU.*its particles cannot be labelled.*`unlabelled=True`"
    ):
        judge(write_delphes({"PF": [particles]}))


def test_sample_without_particles(write_delphes, make_particles):
    with pytest.raises(InputError, match="found no particle in the first 2 events"):
        judge(write_delphes({"PF": [make_particles(0), make_particles(0)]}))


def test_sample_without_pileup(write_delphes, make_particles):
    path = write_delphes({"PF": [make_particles(6, seed, IsPU=[0] * 6) for seed in range(3)]})
    with pytest.raises(InputError, match="found no pileup particle in the first 3 events"):
        judge(path)


def test_calorimeter_that_fills_no_labels(write_delphes, make_particles):
    """Charged pileup is marked, neutral particles all have IsPU 0 and HardEnergyFraction 0."""
    events = [
        make_particles(
            4,
            Charge=[1, -1, 0, 0],
            PID=[211, -211, 22, 0],
            IsPU=[0, 1, 0, 0],
            HardEnergyFraction=[1, 0, 0, 0],
        )
    ]
    with pytest.raises(
        InputError, match=r"always 0 \(a card with the ATLAS-like Calorimeter fills neither\)"
    ):
        judge(write_delphes({"PF": events}))


def test_neutral_is_pu_always_zero_without_fractions(write_delphes, make_particles):
    events = [make_particles(4, Charge=[1, -1, 0, 0], IsPU=[0, 1, 0, 0]) for _ in range(3)]
    with pytest.raises(InputError, match="ATLAS-like"):
        judge(write_delphes({"PF": events}))


def test_neutral_fractions_always_zero(write_delphes, make_particles):
    events = [make_particles(4, Charge=[1, -1, 0, 0], HardEnergyFraction=[1, 0, 0, 0]) for _ in range(3)]
    for event in events:
        del event["IsPU"]
    with pytest.raises(InputError, match="ATLAS-like"):
        judge(write_delphes({"PF": events}))


def test_towers_that_fill_no_labels(write_delphes, make_particles):
    tower = {"ET": [1.0, 2.0], "Eta": [0.0, 1.0], "Phi": [0.0, 1.0], "E": [1.0, 3.0], "IsPU": [0, 0]}
    tower["HardEnergyFraction"] = [0.0, 0.0]
    path = write_delphes(
        {"EFlowTrack": [make_particles(4)], "EFlowPhoton": [tower], "EFlowNeutralHadron": [tower]}
    )
    with pytest.raises(InputError, match="ATLAS-like"):
        judge(path)


def test_counts_add_up():
    one = LabelCounts(1, 10, 4, 6, 2, 0)
    both = one + one
    assert (both.n_events, both.n_charged, both.n_pileup) == (2, 20, 20)
    assert both.is_settled
    assert not LabelCounts(1, 10, 10, 6, 2, 0).is_settled
