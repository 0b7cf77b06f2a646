"""Particles of a range of events: equal to what uproot reads from real files, labelled, merged, checked."""

import awkward as ak
import numpy as np
import pytest
import uproot

import hepdata
from hepdata.readers.delphes import open_tree, survey_tree
from hepdata.readers.delphes_branches import BranchMap, Collection
from hepdata.readers.delphes_events import read_range
from hepdata.readers.delphes_presets import choose_branches

PU50 = "data/delphes/ttbar_PU50_PF_small_6ev.root"
NO_PILEUP = "data/delphes/coffea_delphes.root"


def read_all(path, wanted="auto", *, labelled=True, start=0, stop=None):
    survey = survey_tree(str(path))
    branches = choose_branches(wanted, survey.contents, survey.classes, path)
    with open_tree(str(path)) as tree:
        return read_range(
            tree, branches, start, survey.n_events if stop is None else stop, labelled=labelled, where=path
        )


def event_of(table, number):
    part = slice(table.offsets[number], table.offsets[number + 1])
    return {name: values[part] for name, values in table.columns.items()}, (
        None if table.is_leading is None else table.is_leading[part]
    )


def check_pf(path):
    """Branch PF point by point: what uproot reads, and a computed rapidity where the written one is lost."""
    table = read_all(path, "pf")
    tree = uproot.open(path)["Delphes"]
    leaves = {
        "pt": "PT",
        "eta": "Eta",
        "phi": "Phi",
        "px": "Px",
        "py": "Py",
        "energy": "E",
        "charge": "Charge",
    }
    for number in range(tree.num_entries):
        columns, is_leading = event_of(table, number)
        for name, leaf in {**leaves, "pid": "PID"}.items():
            np.testing.assert_array_equal(columns[name], tree[f"PF.{leaf}"].array()[number], err_msg=name)
        np.testing.assert_array_equal(is_leading, tree["PF.IsPU"].array()[number] == 0)
        written = tree["PF.Rapidity"].array(library="np")[number]
        finite = np.isfinite(written)
        np.testing.assert_array_equal(columns["rapidity"][finite], written[finite])
        assert np.isfinite(columns["rapidity"]).all()


def check_candidates(path):
    """Particle-flow candidates point by point: what uproot reads, and what the branch lacks computed."""
    table = read_all(path, "particle-flow-candidate")
    tree = uproot.open(path)["Delphes"]
    for number in range(tree.num_entries):
        columns, is_leading = event_of(table, number)
        leaf = {
            name: tree[f"ParticleFlowCandidate.{name}"].array(library="np")[number]
            for name in ("PT", "Eta", "Phi", "E", "Charge", "PID", "IsPU", "Mass")
        }
        for name, source in (
            ("pt", "PT"),
            ("eta", "Eta"),
            ("phi", "Phi"),
            ("energy", "E"),
            ("charge", "Charge"),
        ):
            np.testing.assert_array_equal(columns[name], leaf[source])
        np.testing.assert_array_equal(columns["pid"], leaf["PID"])
        np.testing.assert_array_equal(is_leading, leaf["IsPU"] == 0)
        np.testing.assert_allclose(columns["px"], leaf["PT"] * np.cos(leaf["Phi"]), rtol=1e-5, atol=1e-6)
        mass = np.maximum(leaf["Mass"].astype(float), 0)
        pz = leaf["PT"].astype(float) * np.sinh(leaf["Eta"].astype(float))
        rapidity = np.arcsinh(pz / np.hypot(leaf["PT"].astype(float), mass))
        np.testing.assert_allclose(columns["rapidity"], rapidity, rtol=1e-6)


def check_eflow(path):
    """Three branches point by point, one after the other in every event."""
    table = read_all(path, "eflow", labelled=False)
    tree = uproot.open(path)["Delphes"]
    assert table.is_leading is None
    branches = {
        "EFlowTrack": ("PT", "Eta", "Phi", "PID", "Charge", "P", "Mass"),
        "EFlowPhoton": ("ET", "Eta", "Phi", "E"),
        "EFlowNeutralHadron": ("ET", "Eta", "Phi", "E"),
    }
    read = [
        {name: tree[f"{branch}.{name}"].array(library="np") for name in leaves}
        for branch, leaves in branches.items()
    ]
    for number in range(tree.num_entries):
        columns, _ = event_of(table, number)
        track, photon, hadron = ({name: values[number] for name, values in part.items()} for part in read)
        np.testing.assert_array_equal(
            columns["pt"], np.concatenate([track["PT"], photon["ET"], hadron["ET"]])
        )
        for name, leaf in (("eta", "Eta"), ("phi", "Phi")):
            np.testing.assert_array_equal(
                columns[name], np.concatenate([track[leaf], photon[leaf], hadron[leaf]])
            )
        n_neutral = len(photon["E"]) + len(hadron["E"])
        np.testing.assert_array_equal(
            columns["charge"], np.concatenate([track["Charge"], np.zeros(n_neutral, int)])
        )
        species = np.concatenate([np.full(len(photon["E"]), 22), np.zeros(len(hadron["E"]), int)])
        np.testing.assert_array_equal(columns["pid"], np.concatenate([track["PID"], species]))
        inside = track["Eta"] < 900
        np.testing.assert_allclose(
            columns["energy"][: len(inside)][inside],
            np.hypot(track["P"].astype(float), track["Mass"].astype(float))[inside],
            rtol=1e-5,
        )
        np.testing.assert_array_equal(columns["energy"][len(inside) :], [*photon["E"], *hadron["E"]])


def check_references(path):
    """Without pileup every track has its generator particle, although ids keep the process number above."""
    leaves = {"pt": "PT", "eta": "Eta", "phi": "Phi", "charge": "Charge"}
    tracks = BranchMap("tracks", (Collection("EFlowTrack", leaves, label="TRef"),))
    with open_tree(str(path)) as tree:
        table = read_range(tree, tracks, 0, tree.num_entries, labelled=True, where="file")
        assert len(table.is_leading) > 0
        assert table.is_leading.all()
        ids = tree["Particle.fUniqueID"].array(library="np")[0]
        references = tree["EFlowTrack.Particle"].array()[0]
    assert ids.min() >= 2**24
    references = np.asarray(references["ref"] if "ref" in references.fields else references)
    assert set(references.tolist()) <= set((ids % 2**24).tolist())


def test_pf_point_by_point(candidate_file):
    check_pf(candidate_file)


def test_candidates_point_by_point(candidate_file):
    check_candidates(candidate_file)


def test_eflow_point_by_point(eflow_file):
    check_eflow(eflow_file)


def test_references_with_a_process_number(eflow_file):
    check_references(eflow_file)


def test_pf_of_a_real_file_point_by_point(real_file):
    check_pf(real_file(PU50))


def test_candidates_of_a_real_file_point_by_point(real_file):
    check_candidates(real_file(PU50))


def test_eflow_of_a_real_file_point_by_point(real_file):
    check_eflow(real_file(NO_PILEUP))


def test_references_of_a_real_file(real_file):
    check_references(real_file(NO_PILEUP))


def test_label_by_reference(write_delphes, make_particles):
    tracks = make_particles(4)
    del tracks["IsPU"]
    path = write_delphes(
        {
            "EFlowTrack": [{**tracks, "Particle": [7, 8, 9, 10]}, {**tracks, "Particle": [1, 2, 3, 4]}],
            # 9 exists in the second event only.
            "Particle": [{"fUniqueID": [7, 10, 11]}, {"fUniqueID": [9, 4]}],
        }
    )
    leaves = {"pt": "PT", "eta": "Eta", "phi": "Phi", "charge": "Charge"}
    tracks = BranchMap("tracks", (Collection("EFlowTrack", leaves, label="TRef"),))
    with open_tree(path) as tree:
        table = read_range(tree, tracks, 0, 2, labelled=True, where="file")
    assert table.is_leading.tolist() == [True, False, False, True, False, False, False, True]


def test_label_by_reference_to_particles_that_know(write_delphes, make_particles):
    tracks = make_particles(3, Particle=[7, 8, 9])
    del tracks["IsPU"]
    path = write_delphes({"EFlowTrack": [tracks], "Particle": [{"fUniqueID": [9, 8, 7], "IsPU": [1, 0, 1]}]})
    leaves = {"pt": "PT", "eta": "Eta", "phi": "Phi", "charge": "Charge"}
    tracks = BranchMap("tracks", (Collection("EFlowTrack", leaves, label="TRef"),))
    with open_tree(path) as tree:
        table = read_range(tree, tracks, 0, 1, labelled=True, where="file")
    assert table.is_leading.tolist() == [False, True, False]


def test_label_by_energy_fraction(write_delphes, make_particles):
    particles = make_particles(4, HardEnergyFraction=[0.0, 0.49, 0.5, 1.0])
    del particles["IsPU"]
    path = write_delphes({"PF": [particles]})
    assert read_all(path).is_leading.tolist() == [False, False, True, True]


def test_branches_are_merged_event_by_event(write_delphes, make_particles):
    path = write_delphes(
        {
            "EFlowTrack": [make_particles(3, 1), make_particles(1, 2), make_particles(2, 3)],
            "EFlowPhoton": [make_particles(2, 4), make_particles(0, 5), make_particles(1, 6)],
            "EFlowNeutralHadron": [make_particles(0, 7), make_particles(0, 8), make_particles(1, 9)],
        }
    )
    table = read_all(path, "eflow")
    assert table.offsets.tolist() == [0, 5, 6, 10]
    expected = [*make_particles(2, 3)["PT"], *make_particles(1, 6)["PT"], *make_particles(1, 9)["PT"]]
    np.testing.assert_allclose(event_of(table, 2)[0]["pt"], expected, rtol=1e-6)


def test_old_files_with_few_leaves(write_delphes, make_particles):
    full = make_particles(50)
    few = {name: full[name] for name in ("PT", "Eta", "Phi", "Charge", "PID", "IsPU")}
    columns, _ = event_of(read_all(write_delphes({"PF": [few]})), 0)
    np.testing.assert_allclose(np.hypot(columns["px"], columns["py"]), columns["pt"], rtol=1e-5)
    assert np.all(columns["energy"] >= columns["pt"] * np.cosh(columns["eta"]) * (1 - 1e-5))


def test_ranges_join_to_the_whole(pileup_file):
    whole = read_all(pileup_file)
    parts = [read_all(pileup_file, start=start, stop=start + 4) for start in (0, 4, 8)]
    for name, values in whole.columns.items():
        np.testing.assert_array_equal(np.concatenate([part.columns[name] for part in parts]), values)


def test_cut_of_a_table(pileup_file):
    whole, direct = read_all(pileup_file), read_all(pileup_file, start=3, stop=7)
    cut = whole.cut(3, 7)
    assert (cut.first, cut.stop) == (3, 7)
    np.testing.assert_array_equal(cut.offsets, direct.offsets)
    np.testing.assert_array_equal(cut.columns["pt"], direct.columns["pt"])
    np.testing.assert_array_equal(cut.is_leading, direct.is_leading)
    assert whole.cut(0, 12) is whole


def test_lengths_that_disagree(write_delphes, make_particles):
    bad = make_particles(4)
    bad["Eta"] = bad["Eta"][:3]
    path = write_delphes({"PF": [make_particles(2, 1), bad, make_particles(3, 2)]})
    table = read_all(path)
    assert list(table.problems) == [1]
    assert "entry 1: found 3 values of PF.Eta for 4 of PF." in str(table.problems[1])
    assert table.offsets.tolist() == [0, 2, 2, 5]
    np.testing.assert_allclose(event_of(table, 2)[0]["pt"], make_particles(3, 2)["PT"], rtol=1e-6)


def test_events_without_particles(write_delphes, make_particles):
    path = write_delphes({"PF": [make_particles(0), make_particles(2), make_particles(0)]})
    assert read_all(path).offsets.tolist() == [0, 0, 2, 2]


def test_a_label_that_is_not_there_cannot_be_asked_for(write_delphes, make_particles):
    particles = make_particles(2)
    del particles["IsPU"]
    with pytest.raises(ValueError, match="branch PF has no label rule"):
        read_all(write_delphes({"PF": [particles]}), labelled=True)


def test_awkward_and_we_agree_on_sizes(pileup_file):
    tree = uproot.open(pileup_file)["Delphes"]
    np.testing.assert_array_equal(np.diff(read_all(pileup_file).offsets), ak.num(tree["PF.PT"].array()))


@pytest.mark.parametrize("n_particles", [1, 25, 10**6])
def test_parts_of_a_table_are_the_table(write_delphes, make_particles, n_particles):
    sizes = (10, 0, 0, 30, 5, 0)
    table = read_all(write_delphes({"PF": [make_particles(n, seed) for seed, n in enumerate(sizes)]}))
    parts = list(table.divide(n_particles))
    assert [part.first for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == 6
    np.testing.assert_array_equal(np.concatenate([part.columns["pt"] for part in parts]), table.columns["pt"])
    for part in parts:
        # Without its last event, a part is smaller than requested.
        assert part.offsets[-2] < n_particles
        assert part.offsets[0] == 0


def test_what_detectors_measure_is_read_where_a_branch_has_it(write_delphes, make_particles):
    photons = make_particles(3, Eem=[3.0, 0.0, 2.0], Ehad=[1.0, 0.0, 0.0])
    path = write_delphes(
        {
            "EFlowTrack": [make_particles(2, D0=[0.5, -0.25], DZ=[10.0, float("nan")])],
            "EFlowPhoton": [photons],
            "EFlowNeutralHadron": [make_particles(1)],
        }
    )
    columns = read_all(path, "eflow").columns
    assert columns["d0"].tolist() == [0.5, -0.25, 0, 0, 0, 0]
    assert columns["dz"].tolist() == [10, 0, 0, 0, 0, 0]
    assert columns["em_fraction"].tolist() == [0, 0, 0.75, 0, 1, 0]
    assert not {"d0", "dz", "em_fraction"} & set(read_all(write_delphes({"PF": [make_particles(2)]})).columns)


def test_measured_columns_of_a_dataset(write_delphes, make_particles, tmp_path):
    path = write_delphes({"PF": [make_particles(6, seed, D0=[0.1] * 6) for seed in range(4)]})
    data = hepdata.build_pileup(path, tmp_path / "data", workers=1, unlabelled=True)
    assert data.schema.has_column("d0")
    assert not data.schema.has_column("dz")
    assert (data["train"][0].columns["d0"] == np.float32(0.1)).all()
