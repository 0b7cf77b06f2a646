"""Delphes files: which open, which are refused, and the survey of a tree."""

import awkward as ak
import numpy as np
import pytest
import uproot

from hepdata.errors import InputError
from hepdata.readers.delphes import count_entries, open_tree, survey_tree


def test_survey_of_a_simulated_file(pileup_file):
    survey = survey_tree(str(pileup_file))
    assert survey.n_events == 12
    assert survey.n_cycles == 1
    assert {"PT", "Eta", "Phi", "IsPU"} <= survey.contents["PF"]
    with open_tree(str(pileup_file)) as tree:
        counts = count_entries(tree, survey.contents, 3, "file")
        assert counts == {"PF": tree["PF_size"].array(library="np")[3]}


def test_survey_names_classes(write_classes, write_delphes, make_particles):
    survey = survey_tree(
        write_classes(
            {
                "PF": ("GenParticle", ("PT", "Eta")),
                "Candidate": ("ParticleFlowCandidate", ("PT", "E")),
                "EFlowPhoton": ("Tower", ("ET",)),
            }
        )
    )
    assert survey.classes == {
        "PF": "GenParticle",
        "Candidate": "ParticleFlowCandidate",
        "EFlowPhoton": "Tower",
    }
    assert survey.contents == {"PF": {"PT", "Eta"}, "Candidate": {"PT", "E"}, "EFlowPhoton": {"ET"}}
    # uproot writes plain leaves, which have no class.
    assert survey_tree(write_delphes({"PF": [make_particles(3)]})).classes == {"PF": ""}


def test_survey_of_real_files_names_classes(real_file):
    survey = survey_tree(str(real_file("data/delphes/ttbar_PU50_PF_small_6ev.root")))
    assert survey.classes["PF"] == "GenParticle"
    assert survey.classes["ParticleFlowCandidate"] == "ParticleFlowCandidate"
    other = survey_tree(str(real_file("data/delphes/coffea_delphes.root")))
    assert other.classes["EFlowPhoton"] == "Tower"
    assert other.n_events == 25


def test_the_newest_cycle_is_read(tmp_path):
    path = tmp_path / "cycles.root"
    with uproot.recreate(path) as file:
        for numbers in (np.arange(3), np.arange(5)):
            file.mktree("Delphes", {"PF_size": "int32"})
            file["Delphes"].extend({"PF_size": numbers})
    survey = survey_tree(str(path))
    assert (survey.n_cycles, survey.n_events) == (2, 5)


@pytest.mark.parametrize(
    "compression", [None, uproot.ZLIB(1), uproot.ZLIB(9), uproot.LZMA(1), uproot.LZ4(4), uproot.ZSTD(3)]
)
def test_compressions(write_delphes, make_particles, compression):
    particles = make_particles(2000)
    path = write_delphes({"PF": [particles, particles]}, compression=compression)
    with open_tree(path) as tree:
        np.testing.assert_allclose(tree["PF.PT"].array(library="np")[1], particles["PT"], rtol=1e-6)


def test_missing_file(tmp_path):
    with (
        pytest.raises(InputError, match=r"nowhere.root: found no such file"),
        open_tree(str(tmp_path / "nowhere.root")),
    ):
        pass


def test_not_a_root_file(tmp_path):
    path = tmp_path / "notes.root"
    path.write_text("these are not the bytes you are looking for" * 20)
    with pytest.raises(InputError, match=r"notes.root: found a file that is not ROOT"):
        survey_tree(str(path))


def test_empty_file(tmp_path):
    path = tmp_path / "empty.root"
    path.touch()
    with pytest.raises(InputError, match="found an empty file"):
        survey_tree(str(path))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_truncated_file(pileup_file, tmp_path, share):
    content = pileup_file.read_bytes()
    path = tmp_path / "short.root"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"short.root: found a truncated file \([\d,]+ of [\d,]+ bytes\)"):
        survey_tree(str(path))


def test_no_delphes_tree(tmp_path):
    with uproot.recreate(tmp_path / "other.root") as file:
        file.mktree("Analysis", {"x": "int32"})
        file["Analysis"].extend({"x": np.arange(3)})
    with pytest.raises(InputError, match=r"found no tree 'Delphes' \(the file has: Analysis \(TTree\)\)"):
        survey_tree(str(tmp_path / "other.root"))


def test_something_else_named_delphes(tmp_path):
    with uproot.recreate(tmp_path / "histogram.root") as file:
        file["Delphes"] = np.histogram(np.arange(10))
    with pytest.raises(InputError, match=r"found no tree 'Delphes' \(the file has: Delphes \(TH1D\)\)"):
        survey_tree(str(tmp_path / "histogram.root"))


def test_edm4hep_file(tmp_path):
    with uproot.recreate(tmp_path / "edm.root") as file:
        for name in ("events", "podio_metadata"):
            file.mktree(name, {"x": "int32"})
            file[name].extend({"x": np.arange(3)})
    with pytest.raises(InputError, match="found an EDM4hep file"):
        survey_tree(str(tmp_path / "edm.root"))


def test_no_keys_at_all(tmp_path):
    with uproot.recreate(tmp_path / "bare.root"):
        pass
    with pytest.raises(InputError, match=r"the file has: nothing"):
        survey_tree(str(tmp_path / "bare.root"))


def test_tree_without_events(tmp_path):
    with uproot.recreate(tmp_path / "none.root") as file:
        file.mktree("Delphes", {"PF.PT": ak.types.from_datashape("var * float32", highlevel=False)})
    assert survey_tree(str(tmp_path / "none.root")).n_events == 0
