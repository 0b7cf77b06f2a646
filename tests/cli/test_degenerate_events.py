"""Events with next to nothing in them go through build, validate, info and plot, for both tasks."""

import subprocess
import sys

import numpy as np
import pytest


def hept_data(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", "from hept_cli.data import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def check_all_commands(build, out):
    code, _, errors = hept_data(*build, out)
    assert code == 0, errors
    code, output, errors = hept_data("validate", out)
    assert code == 0, output + errors
    assert hept_data("info", out)[0] == 0
    code, _, errors = hept_data("plot", out, "--out", out.with_name("pictures"))
    assert code == 0, errors


def keep_hits(folder, edit_csv, chosen):
    """Only some hits of every event, with their cells and truth; `chosen` tells them from the truth table."""
    import pandas as pd

    for truth in sorted(folder.glob("*-truth.csv")):
        kept = set(chosen(pd.read_csv(truth)))
        for part in ("hits", "cells", "truth"):
            path = truth.with_name(truth.name.replace("truth", part))
            edit_csv(path, lambda table, kept=kept: table[table.hit_id.isin(kept)])


def first_hit(truth):
    return truth.hit_id[truth.particle_id > 0][:1]


def first_particle(truth):
    return truth.hit_id[truth.particle_id == truth.particle_id[truth.particle_id > 0].iloc[0]]


TRACKING = {
    "1 hit": (first_hit, ()),
    "2 hits": (lambda truth: truth.hit_id[:2], ()),
    "all noise, unlabelled": (lambda truth: truth.hit_id[truth.particle_id == 0], ("--unlabelled",)),
    "one particle": (first_particle, ()),
    "one hit a particle": (lambda t: t.hit_id[(t.particle_id > 0) & ~t.particle_id.duplicated()], ()),
    "unlabelled": (lambda truth: truth.hit_id, ("--unlabelled",)),
    "1 hit, unlabelled": (lambda truth: truth.hit_id[:1], ("--unlabelled",)),
    "1 hit in sectors": (first_hit, ("--preset", "tracking-6k")),
}


@pytest.mark.parametrize("case", TRACKING)
def test_tracking(trackml_copy, tmp_path, edit_csv, case):
    chosen, options = TRACKING[case]
    keep_hits(trackml_copy, edit_csv, chosen)
    check_all_commands(("build", "tracking", *options, trackml_copy), tmp_path / "set")


def test_all_noise_is_no_labelled_event(trackml_copy, tmp_path, edit_csv):
    keep_hits(trackml_copy, edit_csv, lambda truth: truth.hit_id[truth.particle_id == 0])
    code, _, errors = hept_data("build", "tracking", trackml_copy, tmp_path / "set")
    assert code == 2
    assert "found only noise" in errors
    assert "--unlabelled" in errors


def test_no_event_selected(trackml_copy, tmp_path):
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
def test_pileup(write_degenerate, tmp_path, case, options):
    n, changes = PILEUP[case]
    check_all_commands(("build", "pileup", *options, write_degenerate(n, changes)), tmp_path / "set")


def test_no_pileup_is_no_labelled_sample(write_degenerate, tmp_path):
    path = write_degenerate(30, {"IsPU": np.zeros(30)})
    code, _, errors = hept_data("build", "pileup", path, tmp_path / "set")
    assert code == 2
    assert "no pileup particle in the first 4 events" in errors
    check_all_commands(("build", "pileup", "--unlabelled", path), tmp_path / "unlabelled")


def test_no_particle_selected(write_degenerate, tmp_path):
    path = write_degenerate(5, {"Eta": np.full(5, 999.9)})
    code, _, errors = hept_data("build", "pileup", path, tmp_path / "set")
    assert code == 2
    assert "no points in any of 4 events" in errors


@pytest.fixture
def write_degenerate(tmp_path):
    """Four events of n particles each as a Delphes file, with some leaves changed."""
    import awkward as ak
    import uproot

    def write(n, changes):
        events = [_draw(n, seed) | changes for seed in range(4)]
        columns = {
            f"PF.{leaf}": ak.Array([np.asarray(event[leaf], _type_of(leaf)) for event in events])
            for leaf in events[0]
        }
        with uproot.recreate(tmp_path / "few.root") as file:
            tree = file.mktree(
                "Delphes",
                {name: values.type.content for name, values in columns.items()},
                counter_name=lambda name: f"n{name.replace('.', '_')}",
            )
            tree.extend(columns)
        return tmp_path / "few.root"

    return write


def _type_of(leaf):
    return np.int32 if leaf in ("Charge", "PID", "IsPU") else np.float32


def _draw(n, seed):
    random = np.random.default_rng(seed)
    pid = random.choice([211, -211, 22, 130], n)
    return {
        "PT": random.gamma(2, 0.5, n) + 0.1,
        "Eta": random.uniform(-4, 4, n),
        "Phi": random.uniform(-3, 3, n),
        "Charge": np.where(np.abs(pid) == 211, np.sign(pid), 0),
        "PID": pid,
        "IsPU": np.arange(n) % 2,
    }
