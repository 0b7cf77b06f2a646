"""The fault suite detects faults: careless jobs and readers fail, careful ones pass."""

import json
import subprocess
import sys

import pytest

KILLS = """
import json, sys
from pathlib import Path
from benchmarks.faults.jobs import Job
from benchmarks.faults.kills import disturb, fill_disk, kill_at_step, kill_in_write

def careless(folder):
    path = folder / "first" / "data"
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.write(b"new" * 1000)
    return True

def careful(folder):
    (folder / ".data").write_bytes(b"new" * 1000)
    (folder / ".data").replace(folder / "first" / "data")
    return True

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "start" / "first").mkdir(parents=True)
    (folder / "start" / "first" / "data").write_bytes(b"old")
    found = {}
    for work in (careless, careful):
        for fault in (kill_at_step, kill_in_write, fill_disk):
            kind = disturb(fault.__name__, fault, 3, [Job(work.__name__, work, out="first")])
            [tally] = kind(folder, 1)
            found[f"{work.__name__} {fault.__name__}"] = [tally.tried, tally.survived]
    print(json.dumps(found))
"""

DAMAGE = """
import json, sys
from pathlib import Path
import hepdata
from benchmarks.faults.damage import flip, spoil

def careless(copy):
    return (copy / "data").read_bytes()

def careful(copy):
    if (copy / "data").read_bytes() != b"whole" * 100:
        raise hepdata.InputError(copy, found="damage", expected="none", remedy="restore it")
    return "whole"

def broken(copy):
    return {b"whole" * 100: 1}[(copy / "data").read_bytes()]

if __name__ == "__main__":
    copy = Path(sys.argv[1]) / "copy"
    copy.mkdir()
    (copy / "data").write_bytes(b"whole" * 100)
    found = {}
    for read in (careless, careful, broken):
        tally = spoil("flipped", "data", copy / "data", flip, read, 5, 1)
        found[read.__name__] = [tally.tried, tally.survived, tally.refused]
    print(json.dumps(found))
"""


def run(script, folder):
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_lost_data_is_told(tmp_path):
    found = run(KILLS, tmp_path)
    for name, (tried, survived) in found.items():
        assert tried == 3
        assert survived == 3 if name.startswith("careful kill") else survived < 3, name


def test_damage_that_is_read_is_told(tmp_path):
    assert run(DAMAGE, tmp_path) == {"careless": [5, 0, 0], "careful": [5, 5, 5], "broken": [5, 0, 0]}


@pytest.mark.parametrize(("kind", "code"), [("manifests", 0), ("no-such", 2)])
def test_the_command(kind, code):
    command = [sys.executable, "-m", "benchmarks.faults", "--share", "0.004", kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("| forged | dataset.json | 2 | 2 |" in done.stdout) == (code == 0)
