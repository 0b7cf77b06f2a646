import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

COMMAND = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'hept-data'; from hept_cli.data import main; main()",
]


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "simulate", "tracking", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def read_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_writes_events_prints_a_summary_and_leaves_it_for_scripts(tmp_path):
    out = run(
        tmp_path / "raw", "--events", 2, "--hits-per-event", 500, "--seed", 4, "--json", tmp_path / "s.json"
    )
    assert out.returncode == 0, out.stderr
    assert "hits" in out.stdout
    assert "2/2" in out.stderr  # the progress
    summary = json.loads((tmp_path / "s.json").read_text())
    hits = [len(pd.read_csv(path)) for path in (tmp_path / "raw").glob("*-hits.csv")]
    assert (summary["n_events"], summary["n_hits"]) == (2, sum(hits))
    assert sorted(path.name for path in (tmp_path / "raw").glob("*-hits.csv")) == [
        "event000001000-hits.csv",
        "event000001001-hits.csv",
    ]


def test_the_options_reach_the_simulation(tmp_path):
    out = run(tmp_path, "--events", 1, "--hits-per-event", 300, "--first-event", 7, "--gzip")
    assert out.returncode == 0, out.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "detectors.csv.gz",
        *(f"event000000007-{name}.csv.gz" for name in ("hits", "cells", "particles", "truth")),
    }


def test_the_example_of_the_help_works_as_printed(tmp_path):
    text = run("--help").stdout
    line = next(line for line in text.splitlines() if line.strip().startswith("hept-data simulate tracking"))
    words = shlex.split(line)
    out = subprocess.run([*COMMAND, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert len(list((tmp_path / "raw").glob("event*-hits.csv"))) == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--events", 0], "--events: found 0"),
        (["--hits-per-event", 10], "--hits-per-event: found 10"),
        (["--seed", -3], "--seed: found -3"),
    ],
)
def test_wrong_numbers_are_one_line_and_exit_code_2(tmp_path, arguments, message):
    out = run(tmp_path / "raw", *arguments)
    assert out.returncode == 2
    assert message in out.stderr
    assert len(out.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "raw").exists()


def test_a_file_as_out_is_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "raw").write_text("")
    out = run(tmp_path / "raw", "--events", 1)
    assert out.returncode == 2
    assert "found a file; expected a folder" in out.stderr


def test_a_killed_run_leaves_whole_events_and_the_same_command_finishes_the_job(tmp_path):
    arguments = ["--events", "8", "--hits-per-event", "2000"]
    process = subprocess.Popen(
        [*COMMAND, "simulate", "tracking", str(tmp_path / "killed"), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not list((tmp_path / "killed").glob("*-hits.csv")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert run(tmp_path / "whole", *arguments).returncode == 0
    whole = read_bytes(tmp_path / "whole")
    seen = list((tmp_path / "killed").glob("event*-hits.csv"))
    assert seen
    for hits in seen:
        for name in ("hits", "cells", "particles", "truth"):
            other = hits.with_name(hits.name.replace("-hits", f"-{name}"))
            assert other.read_bytes() == whole[other.name]
    assert run(tmp_path / "killed", *arguments).returncode == 0
    assert read_bytes(tmp_path / "killed") == whole
