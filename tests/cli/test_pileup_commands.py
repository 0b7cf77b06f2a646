"""Pileup on the command line, as a user types it: output, files for scripts, exit codes."""

import json
import re

import pytest


def test_from_simulation_to_pictures(hept_data, tmp_path):
    code, out, err = hept_data(
        "simulate", "pileup", "a.root", "--events", 12, "--pileup", 3, "--json", "s.json"
    )
    assert code == 0, err
    assert "leading fraction of scored" in out
    assert "12/12" in err
    assert json.loads((tmp_path / "s.json").read_text())["events"] == 12
    code, out, err = hept_data(
        "build", "pileup", "a.root", "dataset", "--step-size", "100kB", "--json", "b.json"
    )
    assert code == 0, err
    assert "Pileup dataset (pf)" in out
    assert json.loads((tmp_path / "b.json").read_text())["n_events"] == 12
    code, out, err = hept_data("info", "dataset")
    assert code == 0, err
    assert re.search(r"point clouds +10 +1 +1 +12", out)
    code, out, err = hept_data("plot", "dataset", "--out", "pictures", "--events", 1, "--json", "p.json")
    assert code == 0, err
    files = json.loads((tmp_path / "p.json").read_text())["files"]
    assert out.split() == files
    assert all((tmp_path / file).stat().st_size > 1000 for file in files)


def test_inspect_shows_branches_presets_labels_and_an_event(hept_data, tmp_path):
    hept_data("simulate", "pileup", "a.root", "--events", 2, "--pileup", 2)
    code, out, err = hept_data("inspect", "a.root", "--event", 1, "--json", "i.json")
    assert code == 0, err
    assert "pf: fits; nothing to compute; training labels: PF by IsPU" in out
    assert "eflow: does not fit (no branch 'EFlowTrack')" in out
    assert "Event 1 through pf" in out
    seen = json.loads((tmp_path / "i.json").read_text())
    assert seen["chosen"] == "pf"
    assert seen["event"]["n_points"] == seen["branches"]["PF"]["in_event"]


def test_inspect_names_leaves_for_a_map(hept_data):
    hept_data("simulate", "pileup", "a.root", "--events", 1, "--pileup", 1)
    code, out, _ = hept_data("inspect", "a.root", "--leaves")
    assert code == 0
    assert "PF: Charge, E, Eta, IsPU, Mass, P, PID, PT, Phi," in out
    assert "IsPU" not in hept_data("inspect", "a.root")[1].replace("PF by IsPU", "")


def test_same_seed_same_bytes(hept_data, tmp_path):
    for name in ("a.root", "b.root"):
        assert hept_data("simulate", "pileup", name, "--events", 2, "--pileup", 2, "--seed", 7)[0] == 0
    assert (tmp_path / "a.root").read_bytes() == (tmp_path / "b.root").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build", "pileup", "none.root", "out"), "error: none.root: found no file;"),
        (
            ("build", "pileup", "words.root", "out"),
            "error: words.root: found a file that is not ROOT",
        ),
        (("inspect", "none.root"), "error: none.root: found no file;"),
        (
            ("build", "pileup", "a.root", "words.root"),
            "error: OUT: found 'words.root', the name of a ROOT file",
        ),
        (("build", "pileup", "a.root"), "error: OUT: found 'a.root' alone; expected a new folder"),
        (("build", "pileup", "a.root", "out", "--branches", "eflow"), "found no branch 'EFlowTrack'"),
        (("build", "pileup", "a.root", "out", "--max-eta", "-1"), "error: --max-eta: found -1.0;"),
        (("build", "pileup", "a.root", "out", "--step-size", "big"), "'big' is not a size such as 64MB"),
        (("build", "pileup", "a.root", "out"), "no pileup particle in the first 2 events"),
        (("simulate", "pileup", "b.root", "--events", "0"), "error: --events: found 0;"),
        (("plot", "nowhere", "--out", "p"), "found no dataset.json"),
        (("build", "pileup", "root://host//a.root", "out"), "pip install 'hept[xrootd]'"),
    ],
)
def test_mistakes_are_one_line_and_code_2(hept_data, tmp_path, arguments, message):
    (tmp_path / "words.root").write_text("words " * 50)
    hept_data("simulate", "pileup", "a.root", "--events", 2, "--pileup", 0)
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = hept_data(*arguments)
    assert code == 2
    assert message in err
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_sample_without_pileup_builds_unlabelled(hept_data):
    hept_data("simulate", "pileup", "a.root", "--events", 3, "--pileup", 0)
    code, _, err = hept_data("build", "pileup", "a.root", "out", "--unlabelled")
    assert code == 0, err


def test_globs_folders_and_maps(hept_data, tmp_path):
    for seed in (1, 2):
        hept_data("simulate", "pileup", f"raw/{seed}.root", "--events", 2, "--pileup", 2, "--seed", seed)
    (tmp_path / "map.yaml").write_text(
        "collections:\n"
        "  - {branch: PF, label: IsPU, leaves: {pt: PT, eta: Eta, phi: Phi, charge: Charge, pid: PID}}\n"
    )
    for number, extra in enumerate((("raw",), ("raw/*.root",), ("raw/1.root", "raw/2.root"))):
        code, out, err = hept_data("build", "pileup", *extra, f"out{number}", "--branches", "map.yaml")
        assert code == 0, err
        assert "map.yaml" in out
    first = json.loads((tmp_path / "out0" / "dataset.json").read_text())
    assert [file["name"] for file in first["sources"]] == ["1.root", "2.root"]
    for number in (1, 2):
        other = json.loads((tmp_path / f"out{number}" / "dataset.json").read_text())
        assert other == first
