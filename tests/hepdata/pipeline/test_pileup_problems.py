"""Pileup samples with empty, bad or missing parts: what is skipped, counted or refused, and what is left."""

import numpy as np
import pytest
import uproot

from hepdata.errors import HeptError, InputError
from hepdata.pipeline.build import build_dataset
from hepdata.storage.dataset.manifest import Manifest


def test_a_build_whose_events_are_all_empty_leaves_nothing(pileup_file, tmp_path, open_sample):
    with pytest.raises(InputError, match=r"pileup.root: found no points in any of 12 events; expected at"):
        build_dataset(open_sample(pileup_file, max_eta=1e-9), tmp_path / "dataset")
    assert list(tmp_path.iterdir()) == []


def test_empty_events_are_skipped_and_counted(write_delphes, make_particles, tmp_path, open_sample):
    events = [make_particles(0 if number in (2, 5) else 20, number) for number in range(8)]
    summary = build_dataset(open_sample(write_delphes({"PF": events})), tmp_path / "dataset")
    assert summary.n_events == 6
    assert [(entry.event_id, entry.reason) for entry in summary.skipped] == [
        (2, "no points"),
        (5, "no points"),
    ]


def test_dropped_points_are_counted_in_the_manifest(write_delphes, make_particles, tmp_path, open_sample):
    eta = [*np.linspace(-2, 2, 18), 999.9, -4.5]
    events = [make_particles(20, number, Eta=eta) for number in range(5)]
    source = open_sample(write_delphes({"PF": events}), max_eta=3.0)
    summary = build_dataset(source, tmp_path / "dataset")
    manifest = Manifest.read(summary.out)
    assert manifest.configuration["n_dropped"] == summary.n_dropped == 10
    assert manifest.configuration["source"]["max_abs_eta"] == 3.0


def test_an_unknown_neutral_is_another_class(write_delphes, make_particles, open_sample, clouds_of):
    events = [make_particles(3, PID=[12, 0, 3322], Charge=[0, 0, 0], IsPU=[0, 1, 1]) for _ in range(2)]
    (cloud,) = clouds_of(open_sample(write_delphes({"PF": events})))[0]
    assert sorted(cloud.pid_class) == [6, 7, 7]


def test_bad_events_stop_or_are_skipped(write_delphes, make_particles, tmp_path, open_sample):
    events = [make_particles(20, number) for number in range(6)]
    events[1]["PT"][4] = np.nan
    events[4]["Phi"] = events[4]["Phi"][:-1]
    path = write_delphes({"PF": events})
    with pytest.raises(InputError, match=r"card.root, entry 1: found nan as pt of particle 4"):
        build_dataset(open_sample(path), tmp_path / "stopped")
    assert not (tmp_path / "stopped").exists()
    summary = build_dataset(open_sample(path), tmp_path / "skipped", on_error="skip")
    assert summary.n_events == 4
    assert [entry.event_id for entry in summary.skipped] == [1, 4]
    assert "20 of PF." in summary.skipped[1].reason or "19 of PF." in summary.skipped[1].reason


def test_a_failure_leaves_only_what_can_be_continued(write_delphes, make_particles, tmp_path, open_sample):
    events = [make_particles(20, number) for number in range(4)]
    good = write_delphes({"PF": events}, name="good.root")
    for bad, left in ((0, False), (3, True)):
        broken = [dict(event) for event in events]
        broken[bad]["PT"] = np.full(20, np.nan)
        path = write_delphes({"PF": broken}, name=f"bad{bad}.root")
        with pytest.raises(InputError, match="found nan as pt"):
            build_dataset(open_sample(path), tmp_path / f"out{bad}", events_per_shard=1)
        assert (tmp_path / f"out{bad}.partial").exists() == left
    assert build_dataset(open_sample(good), tmp_path / "out0").n_events == 4


def test_a_file_that_goes_away_is_reported_for_its_events(pileup_file, tmp_path, open_sample, clouds_of):
    copy = tmp_path / "copy.root"
    copy.write_bytes(pileup_file.read_bytes())
    source = open_sample(copy)
    copy.unlink()
    answers = clouds_of(source)
    assert len(answers) == 12
    assert all(isinstance(answer, HeptError) and "no such file" in str(answer) for answer in answers)


def test_a_sample_without_pileup_can_only_be_built_unlabelled(
    write_delphes, make_particles, open_sample, clouds_of
):
    path = write_delphes({"PF": [make_particles(6, IsPU=[0] * 6)]})
    with pytest.raises(InputError, match="no pileup particle in the first 1 events"):
        open_sample(path)
    assert clouds_of(open_sample(path, is_labelled=False))[0][0].n_points == 6


def test_files_of_one_build_must_have_the_same_leaves(
    pileup_file, write_delphes, make_particles, open_sample
):
    particles = make_particles(4)
    del particles["Px"]
    with pytest.raises(InputError, match=r"card.root: found no leaf PF.Px"):
        open_sample(pileup_file, write_delphes({"PF": [particles]}))


def test_a_sample_without_events(tmp_path, open_sample):
    with uproot.recreate(tmp_path / "none.root") as file:
        file.mktree("Delphes", {f"PF.{leaf}": "var * float32" for leaf in ("PT", "Eta", "Phi", "Charge")})
    with pytest.raises(InputError, match="found no events"):
        open_sample(tmp_path / "none.root")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_eta": 0.0}, "`max_eta`: found 0.0; expected above 0 and below 100"),
        ({"max_eta": 999.0}, "`max_eta`: found 999.0"),
        ({"scored_pt": -1.0}, "`scored_pt`: found -1.0; expected 0 GeV or more"),
        ({"step_bytes": 0}, "`step_size`: found 0; expected at least 1 byte"),
    ],
)
def test_bad_settings(pileup_file, changes, message, open_sample):
    with pytest.raises(InputError, match=message):
        open_sample(pileup_file, **changes)
