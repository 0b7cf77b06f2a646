"""Simulated Delphes files: the tree that real ones have, the same bytes for the same seed."""

import numpy as np
import pytest
import uproot

from hepdata.errors import InputError
from hepdata.simulate import pileup_file
from hepdata.simulate.pileup import simulate_event
from hepdata.simulate.pileup_file import write_pileup

LEAVES = ("PT", "Eta", "Phi", "Charge", "IsPU", "PID", "Rapidity", "E", "Px", "Py")


def test_tree_reads_back_as_simulated(tmp_path):
    sample = write_pileup(tmp_path / "a.root", events=12, pileup=3, seed=4)
    tree = uproot.open(sample.path)["Delphes"]
    assert tree.num_entries == 12
    for leaf in LEAVES:
        assert tree[f"PF.{leaf}"].array(entry_stop=1).ndim == 2
    for number in (0, 11):
        event = simulate_event(3, seed=4, event=number)
        assert tree["PF_size"].array(library="np")[number] == len(event)
        np.testing.assert_array_equal(tree["PF.PT"].array()[number], event.pt.astype(np.float32))
        np.testing.assert_array_equal(tree["PF.IsPU"].array()[number], event.is_pileup)
    assert sample.n_points == tree["PF_size"].array(library="np").sum()


def test_mixed_numbers_of_collisions(tmp_path):
    sample = write_pileup(tmp_path / "a.root", events=40, pileup=1, pileup_max=20, seed=4)
    sizes = uproot.open(sample.path)["Delphes"]["PF_size"].array(library="np")
    assert sizes.max() > 3 * sizes.min()
    with pytest.raises(InputError, match=r"`pileup_max`.*found 1"):
        write_pileup(tmp_path / "b.root", events=4, pileup=2, pileup_max=1, seed=4)


def test_same_seed_same_bytes_whatever_the_name_and_the_clock(tmp_path, monkeypatch):
    first = write_pileup(tmp_path / "a.root", events=3, pileup=2, seed=4).path.read_bytes()
    import datetime

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime(2031, 5, 6, 7, 8, 9)

    monkeypatch.setattr(datetime, "datetime", Later)
    second = write_pileup(tmp_path / "other.root", events=3, pileup=2, seed=4).path.read_bytes()
    third = write_pileup(tmp_path / "c.root", events=3, pileup=2, seed=5).path.read_bytes()
    assert first == second
    assert first != third


def test_a_longer_sample_begins_like_a_shorter_one(tmp_path):
    short = uproot.open(write_pileup(tmp_path / "a.root", events=2, pileup=2, seed=4).path)["Delphes"]
    long = uproot.open(write_pileup(tmp_path / "b.root", events=4, pileup=2, seed=4).path)["Delphes"]
    np.testing.assert_array_equal(short["PF.PT"].array()[1], long["PF.PT"].array()[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": 0}, "`events`: found 0; expected at least 1"),
        ({"pileup": -1}, "`pileup`: found -1; expected between 0 and 1000"),
        ({"seed": -3}, "`seed`: found -3; expected 0 or more"),
    ],
)
def test_bad_arguments(tmp_path, change, message):
    arguments = {"events": 1, "pileup": 1, "seed": 0, **change}
    with pytest.raises(InputError, match=message):
        write_pileup(tmp_path / "a.root", **arguments)


def test_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot be written"):
        write_pileup(tmp_path / "file" / "a.root", events=1, pileup=1, seed=0)


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    def fail(pileup, seed, event):
        if event == 1:
            raise KeyboardInterrupt
        return simulate_event(pileup, seed, event)

    monkeypatch.setattr(pileup_file, "simulate_event", fail)
    with pytest.raises(KeyboardInterrupt):
        write_pileup(tmp_path / "a.root", events=3, pileup=1, seed=0)
    assert list(tmp_path.iterdir()) == []
