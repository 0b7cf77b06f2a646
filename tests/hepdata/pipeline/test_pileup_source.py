"""Pileup builds: what is stored equals what uproot reads, whatever the workers, steps and interruptions."""

import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
import uproot
import vector

import hepdata
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.pileup_source import PRESETS, PileupConfig, PileupSource, with_changes
from hepdata.simulate.pileup_file import write_pileup
from hepdata.storage.dataset.manifest import Manifest

DEFAULT = PRESETS["pileup-10k"]
LEAVES = {
    "pt": "PT",
    "eta": "Eta",
    "phi": "Phi",
    "px": "Px",
    "py": "Py",
    "energy": "E",
    "rapidity": "Rapidity",
    "charge": "Charge",
}


def stored_clouds(out):
    dataset = hepdata.open_dataset(out)
    clouds = [dataset[split][i] for split in ("train", "valid", "test") for i in range(len(dataset[split]))]
    return sorted(clouds, key=lambda cloud: cloud.event_id)


@pytest.fixture(scope="module")
def built(pileup_file, tmp_path_factory, open_sample):
    """One build in one process."""
    return build_dataset(open_sample(pileup_file), tmp_path_factory.mktemp("built") / "dataset")


def test_stored_points_are_those_of_the_file(pileup_file, built):
    tree = uproot.open(pileup_file)["Delphes"]
    read = {leaf: tree[f"PF.{leaf}"].array(library="np") for leaf in (*LEAVES.values(), "IsPU")}
    clouds = stored_clouds(built.out)
    assert [cloud.event_id for cloud in clouds] == list(range(12))
    for number, cloud in enumerate(clouds):
        order = cloud.index_in_source
        assert sorted(order) == list(range(len(read["PT"][number])))
        for name, leaf in LEAVES.items():
            np.testing.assert_array_equal(cloud.columns[name], read[leaf][number][order], err_msg=name)
        np.testing.assert_array_equal(cloud.is_leading, read["IsPU"][number][order] == 0)


def check_storage(path, out, wanted, open_sample):
    """What is stored of a file with both layouts is what uproot reads from it."""
    build_dataset(open_sample(path, branches=wanted), out)
    branch = "PF" if wanted == "pf" else "ParticleFlowCandidate"
    tree = uproot.open(path)["Delphes"]
    read = {leaf: tree[f"{branch}.{leaf}"].array(library="np") for leaf in ("PT", "Eta", "Phi", "E", "IsPU")}
    clouds = stored_clouds(out)
    assert [cloud.event_id for cloud in clouds] == list(range(tree.num_entries))
    for cloud in clouds:
        number, order = cloud.event_id, cloud.index_in_source
        assert cloud.n_points == len(read["PT"][number])
        for name, leaf in (("pt", "PT"), ("eta", "Eta"), ("phi", "Phi"), ("energy", "E")):
            np.testing.assert_array_equal(cloud.columns[name], read[leaf][number][order])
        np.testing.assert_array_equal(cloud.is_leading, read["IsPU"][number][order] == 0)
        assert all(np.isfinite(cloud.columns[name]).all() for name in LEAVES)


@pytest.mark.parametrize("wanted", ["pf", "particle-flow-candidate"])
def test_either_layout_through_storage(candidate_file, tmp_path, wanted, open_sample):
    check_storage(candidate_file, tmp_path / "dataset", wanted, open_sample)


@pytest.mark.parametrize("wanted", ["pf", "particle-flow-candidate"])
def test_real_file_through_storage(real_file, tmp_path, wanted, open_sample):
    path = real_file("data/delphes/ttbar_PU50_PF_small_6ev.root")
    check_storage(path, tmp_path / "dataset", wanted, open_sample)


def check_unlabelled(path, out, open_sample):
    """Every particle of energy flow is stored, but for those along the beam, without a label."""
    summary = build_dataset(open_sample(path, is_labelled=False), out)
    tree = uproot.open(path)["Delphes"]
    branches = ("EFlowTrack", "EFlowPhoton", "EFlowNeutralHadron")
    n_read = sum(len(np.concatenate(tree[f"{branch}.Eta"].array(library="np"))) for branch in branches)
    n_beam = np.sum(np.abs(np.concatenate(tree["EFlowTrack.Eta"].array(library="np"))) > 20)
    assert n_beam > 0
    assert (summary.n_points, summary.n_dropped) == (n_read - n_beam, n_beam)
    assert "is_leading" not in [column.name for column in Manifest.read(summary.out).columns]


def test_unlabelled_file_without_pileup(eflow_file, tmp_path, open_sample):
    check_unlabelled(eflow_file, tmp_path / "dataset", open_sample)


def test_unlabelled_real_file_without_pileup(real_file, tmp_path, open_sample):
    check_unlabelled(real_file("data/delphes/coffea_delphes.root"), tmp_path / "dataset", open_sample)


def check_kinematics(clouds, rapidity_tolerance):
    """Momentum, energy and rapidity of all points agree, the last as the package vector computes it."""
    for (cloud,) in clouds:
        np.testing.assert_allclose(np.hypot(cloud.px, cloud.py), cloud.pt, rtol=1e-5)
        central = np.abs(cloud.eta) < 6
        momentum = cloud.pt.astype(float) * np.cosh(cloud.eta.astype(float))
        assert np.all(cloud.energy[central] >= momentum[central] * (1 - 1e-5))
        oracle = vector.array(
            {
                "pt": cloud.pt[central].astype(float),
                "eta": cloud.eta[central].astype(float),
                "phi": cloud.phi[central].astype(float),
                "E": np.maximum(cloud.energy, momentum)[central].astype(float),
            }
        )
        np.testing.assert_allclose(cloud.rapidity[central], oracle.rapidity, atol=rapidity_tolerance)


@pytest.mark.parametrize("wanted", ["pf", "particle-flow-candidate"])
def test_kinematics_close(candidate_file, open_sample, clouds_of, wanted):
    check_kinematics(clouds_of(open_sample(candidate_file, branches=wanted)), 1e-3)


def test_kinematics_of_a_real_file_close(real_file, open_sample, clouds_of):
    path = real_file("data/delphes/ttbar_PU50_PF_small_6ev.root")
    for wanted in ("pf", "particle-flow-candidate"):
        # E and p_z are single precision in the file: the difference grows towards the beam.
        check_kinematics(clouds_of(open_sample(path, branches=wanted)), 0.05)


@pytest.mark.parametrize("step_bytes", [1, 60_000, 10**9])
def test_steps_change_nothing(pileup_file, tmp_path, built, step_bytes, open_sample):
    summary = build_dataset(open_sample(pileup_file, step_bytes=step_bytes), tmp_path / "dataset")
    assert summary.fingerprint == built.fingerprint


def test_workers_change_nothing(pileup_file, tmp_path, built, open_sample):
    summary = build_dataset(open_sample(pileup_file), tmp_path / "dataset", workers=2)
    assert summary.fingerprint == built.fingerprint
    assert Manifest.read(summary.out) == Manifest.read(built.out)


def test_more_workers_than_shards_change_nothing(pileup_file, tmp_path, built, open_sample):
    summary = build_dataset(open_sample(pileup_file), tmp_path / "dataset", workers=3, events_per_shard=12)
    alone = build_dataset(open_sample(pileup_file), tmp_path / "alone", events_per_shard=12)
    assert Manifest.read(summary.out) == Manifest.read(alone.out)


def test_a_large_input_gets_a_process_per_core_up_to_four(pileup_file, monkeypatch, open_sample):
    source = open_sample(pileup_file)
    cores = set(range(2))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    assert source.choose_workers() == 1
    monkeypatch.setattr("hepdata.pipeline.engine.LARGE_INPUT", pileup_file.stat().st_size)
    assert source.choose_workers() == 2
    cores |= set(range(64))
    assert source.choose_workers() == 4


@pytest.mark.slow
def test_dask_changes_nothing(pileup_file, tmp_path, built, open_sample):
    summary = build_dataset(open_sample(pileup_file), tmp_path / "dataset", engine="dask", workers=2)
    assert Manifest.read(summary.out) == Manifest.read(built.out)


def test_killed_and_continued(pileup_file, tmp_path, built, open_sample):
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from hepdata.pipeline.pileup_source import PileupConfig, PileupSource\n"
        "from hepdata.pipeline.build import build_dataset\n"
        "class Killer:\n"
        "    done = 0\n"
        "    def start(self, *a, **more): pass\n"
        "    def finish(self): pass\n"
        "    def advance(self, steps=1, note=''):\n"
        "        self.done += steps\n"
        "        if self.done >= 7: os.kill(os.getpid(), signal.SIGKILL)\n"
        "source = PileupSource.open([sys.argv[1]], PileupConfig())\n"
        "build_dataset(source, Path(sys.argv[2]), progress=Killer())\n"
    )
    out = tmp_path / "dataset"
    command = [sys.executable, str(script), str(pileup_file), str(out)]
    assert subprocess.run(command, check=False, timeout=1200).returncode == -signal.SIGKILL
    assert not out.exists()
    summary = build_dataset(open_sample(pileup_file), out)
    assert summary.n_resumed > 0
    assert summary.fingerprint == built.fingerprint


def test_events_are_numbered_through_the_files(pileup_file, tmp_path, open_sample, clouds_of):
    other = write_pileup(tmp_path / "other.root", events=3, pileup=2, seed=8).path
    source = open_sample(other, pileup_file)
    events = source.list_events()
    assert [event.event_id for event in events] == list(range(15))
    assert [event.source for event in events] == ["other.root"] * 3 + ["pileup.root"] * 12
    alone = clouds_of(open_sample(pileup_file))
    for (cloud,), (expected,) in zip(clouds_of(source)[3:], alone, strict=True):
        assert cloud.event_id == expected.event_id + 3
        for name in expected.columns:
            np.testing.assert_array_equal(cloud.columns[name], expected.columns[name])


def test_any_choice_of_events_in_any_order(pileup_file, tmp_path, open_sample):
    other = write_pileup(tmp_path / "other.root", events=3, pileup=2, seed=8).path
    source = open_sample(other, pileup_file)
    events = source.list_events()
    chosen = [events[i] for i in (14, 2, 3, 4, 9, 0)]
    answers = list(source.read_clouds(chosen))
    assert [event for event, _ in answers] == chosen
    assert [clouds[0].event_id for _, clouds in answers] == [14, 2, 3, 4, 9, 0]


def test_max_events_stops_in_the_order_of_the_files(pileup_file, tmp_path):
    other = write_pileup(tmp_path / "other.root", events=3, pileup=2, seed=8).path
    source = PileupSource.open([str(other), str(pileup_file)], DEFAULT, events=EventRange(most=5))
    assert source.n_events == (3, 2)
    assert len(source.list_events()) == 5
    fewer = PileupSource.open([str(other), str(pileup_file)], DEFAULT, events=EventRange(most=2))
    assert (fewer.files, fewer.n_events) == ((str(other),), (2,))


def test_a_source_travels(pileup_file, open_sample):
    source = open_sample(pileup_file)
    assert pickle.loads(pickle.dumps(source)) == source


def test_hashing_a_large_input_reports_itself(pileup_file, monkeypatch, open_sample):
    told = []

    class Listener:
        def start(self, description, total, unit, *, done=0):
            told.append((description, total, unit))

        def advance(self, steps=1, note=""):
            told.append(steps)

        def finish(self):
            told.append("end")

    source = open_sample(pileup_file)
    quiet = source.list_files(Listener())
    assert told == []
    monkeypatch.setattr("hepdata.pipeline.pileup_source._LARGE", 0)
    monkeypatch.setattr("hepdata.pipeline.pileup_source._MEGABYTE", 1)
    assert source.list_files(Listener()) == quiet
    assert (told[0], told[-1]) == (("hashing the input", quiet[0].bytes, "MB"), "end")
    assert sum(told[1:-1]) == quiet[0].bytes


def test_the_preset_is_the_default():
    assert with_changes("pileup-10k") == DEFAULT == PileupConfig()
    assert with_changes("pileup-10k", max_eta=3.0).cuts.max_eta == 3.0
