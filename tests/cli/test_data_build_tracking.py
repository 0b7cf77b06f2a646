import json
import re
import resource
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from hepdata.storage.dataset.manifest import Manifest
from hept_cli.data import main

COMMAND = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'hept-data'; from hept_cli.data import main; main()",
]


@pytest.fixture
def call(monkeypatch, capsys):
    """Run `hept-data build tracking …` here; returns exit code, standard output and standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["hept-data", "build", "tracking", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def configuration(out):
    return Manifest.read(out).configuration["source"]


def test_builds_prints_a_summary_and_leaves_it_for_scripts(call, trackml_events, tmp_path):
    code, printed, errors = call(trackml_events, tmp_path / "set", "--json", tmp_path / "s.json")
    assert code == 0, errors
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["n_events"], summary["skipped"], summary["was_finished"]) == (6, [], False)
    for word in ("events", "points", "particles", "pairs", "size", "skipped events"):
        assert word in printed
    assert f"{summary['n_points']:,}" in printed
    assert "events/s" in errors
    assert "left" in errors


def test_the_same_command_again_says_that_it_is_done(call, trackml_events, tmp_path):
    assert call(trackml_events, tmp_path / "set", "--max-events", 3)[0] == 0
    code, printed, _ = call(trackml_events, tmp_path / "set", "--max-events", 3, "--workers", 2)
    assert code == 0
    assert "nothing to do" in printed
    code, _, errors = call(trackml_events, tmp_path / "set", "--max-events", 4)
    assert code == 2
    assert "another configuration" in errors
    assert call(trackml_events, tmp_path / "set", "--max-events", 4, "--overwrite")[0] == 0


def test_the_examples_of_the_help_work_as_printed(call, trackml_events, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("raw").symlink_to(trackml_events)
    _, text, _ = call("--help")
    lines = [
        line.strip() for line in text.splitlines() if line.strip().startswith("hept-data build tracking")
    ]
    assert len(lines) == 2
    for line in lines:
        code, _, errors = call(*shlex.split(line)[3:])
        assert code == 0, errors
    assert Manifest.read("tracking-6k").statistics().n_clouds > 6


def test_every_option_reaches_the_build(call, trackml_events, tmp_path):
    options = (
        "--preset tracking-6k --events 1001-1004 --max-events 3 --layers all --no-noise --min-pt 0.3"
        " --sectors 4 --sector-overlap 1.5 --pairs published --negatives 32 --radius 0.4"
        " --no-cell-features --split 0/0/100 --events-per-shard 2 --format hdf5 --workers 1 --on-error skip"
    )
    out = tmp_path / "set"
    code, _, errors = call(trackml_events, out, *options.split())
    assert code == 0, errors
    assert configuration(out) == {
        "clouds": {
            "layers": "all",
            "keep_noise": False,
            "min_pt": 0.3,
            "has_cell_features": False,
            "is_labelled": True,
            "sectors": {"n_sectors": 4, "overlap": 1.5, "edge": "exact"},
        },
        "pairs": {"definition": "published", "n_negatives": 32, "radius": 0.4},
    }
    manifest = Manifest.read(out)
    assert manifest.file_format == "hdf5"
    assert manifest.splits["test"][0].event_ids == [1001, 1002, 1003]


def test_a_zip_with_gzipped_events(call, trackml_events, tmp_path):
    import gzip

    archive = tmp_path / "train.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in trackml_events.iterdir():
            target.writestr(f"train/{path.name}.gz", gzip.compress(path.read_bytes()))
    assert call(archive, tmp_path / "zipped")[0] == 0
    assert call(trackml_events, tmp_path / "plain")[0] == 0
    assert Manifest.read(tmp_path / "zipped").fingerprint == Manifest.read(tmp_path / "plain").fingerprint


def test_unlabelled_events(call, trackml_copy, tmp_path):
    for part in ("truth", "particles"):
        for path in trackml_copy.glob(f"*-{part}.csv"):
            path.unlink()
    assert call(trackml_copy, tmp_path / "set", "--split", "0/0/100")[0] == 0
    names = [column.name for column in Manifest.read(tmp_path / "set").columns]
    assert "eta" in names
    assert "particle_id" not in names
    code, _, errors = call(trackml_copy, tmp_path / "other", "--pairs", "paper")
    assert code == 2
    assert "--pairs paper: found events without truth" in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--sectors 2", "--sectors: found 2; expected 1 or at least 3"),
        ("--sector-overlap 0.5", "--sector-overlap: found 0.5"),
        ("--radius 0.5", "--radius: found 0.5 with --pairs paper"),
        ("--pairs published --radius -1", "--radius: found -1.0 with --pairs published"),
        ("--events ten", "--events: found 'ten'; expected FIRST-LAST"),
        ("--events 20-10", "--events: found '20-10'"),
        ("--events 5", "no event with an id from 5 to 5"),
        ("--split 1/2", "--split: found '1/2'"),
        ("--unlabelled --no-noise", "--no-noise: found events without truth"),
        ("--detectors nowhere.csv", "nowhere.csv: found a file that cannot be read"),
        ("--scheduler tcp://here:1", "--scheduler: found 'tcp://here:1' with --engine local"),
    ],
)
def test_wrong_options_give_one_line_and_exit_code_2(call, trackml_events, tmp_path, options, message):
    code, _, errors = call(trackml_events, tmp_path / "set", *options.split())
    assert code == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert "Traceback" not in errors


def cut_gzip(folder):
    import gzip

    path = folder / "event000001002-hits.csv"
    content = gzip.compress(path.read_bytes())
    path.unlink()
    path.with_suffix(".csv.gz").write_bytes(content[: len(content) // 2])


def rewrite(part, change):
    def spoil(folder):
        path = folder / f"event000001002-{part}.csv"
        change(pd.read_csv(path, dtype={"x": object})).to_csv(path, index=False)

    return spoil


def set_value(column, value):
    def change(table):
        table[column] = table[column].astype(object)
        table.loc[3, column] = value
        return table

    return change


BAD_EVENTS = {
    "truncated gzip": (cut_gzip, "truncated or damaged"),
    "missing part": (lambda folder: (folder / "event000001002-cells.csv").unlink(), "no cells file"),
    "missing column": (rewrite("hits", lambda table: table.drop(columns="z")), "no column 'z'"),
    "extra column": (rewrite("hits", lambda table: table.assign(w=1)), "an unknown column 'w'"),
    "duplicate hit": (rewrite("hits", lambda t: pd.concat([t, t[:1]])), "hit_id 1 twice"),
    "unknown module": (rewrite("hits", set_value("module_id", 54321)), r"hit 4 in module \d+/\d+/54321"),
    "NaN": (rewrite("hits", set_value("x", "nan")), "column 'x', line 5: found no number"),
    "inf": (rewrite("hits", set_value("y", "-inf")), "column 'y', line 5: found -inf"),
    "empty event": (rewrite("hits", lambda table: table[:0]), "found no hits"),
    "noise only": (rewrite("truth", lambda table: table.assign(particle_id=0)), "found only noise"),
    "beam axis": (
        rewrite("hits", lambda t: set_value("x", 0)(set_value("y", 0)(t))),
        "hit 4 on the beam axis",
    ),
}


@pytest.mark.parametrize("kind", BAD_EVENTS)
def test_a_bad_event_stops_with_its_own_message_or_is_skipped(call, trackml_copy, tmp_path, kind):
    spoil, message = BAD_EVENTS[kind]
    spoil(trackml_copy)
    code, _, errors = call(trackml_copy, tmp_path / "set")
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    assert code == 2
    assert re.search(message, line), line
    assert re.search("event0*1002|event 1002", line), line
    assert not (tmp_path / "set").exists()
    code, printed, errors = call(trackml_copy, tmp_path / "set", "--on-error", "skip")
    assert code == 0, errors
    assert "skipped event 1002" in printed
    (entry,) = Manifest.read(tmp_path / "set").skipped
    assert entry.event_id == 1002
    assert re.search(message, entry.reason)


def test_a_wrong_detectors_file(call, trackml_events, tmp_path):
    code, _, errors = call(
        trackml_events, tmp_path / "set", "--detectors", trackml_events / "event000001000-hits.csv"
    )
    assert code == 2
    assert "expected a TrackML detectors file" in errors


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_disk_that_takes_no_more(trackml_events, tmp_path, workers):
    command = [*COMMAND, "build", "tracking", trackml_events, tmp_path / "set", "--workers", workers]
    command = [str(word) for word in command]
    result = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit_file_size)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "File too large" in result.stderr
    assert not (tmp_path / "set").exists()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 100 kB, where the user may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(call, trackml_events, small_disk):
    code, _, errors = call(trackml_events, small_disk / "set")
    assert code == 1
    assert "no space left on the disk" in errors
    assert "run the same command again" in errors
    subprocess.run(["mount", "-o", "remount,size=10m", str(small_disk)], check=True)
    code, _, errors = call(trackml_events, small_disk / "set")
    assert code == 0, errors


@pytest.mark.parametrize(
    ("options", "empty"),
    [
        (["--max-events", 1], "valid and test (1 event in all)"),
        (["--max-events", 2], "valid and test (2 events in all)"),
        (["--max-events", 1, "--split", "50/50/0"], "valid (1 event in all)"),
        (["--split", "train=1000-1005,test=2000"], "test (6 events in all)"),
        (["--max-events", 3], None),
        (["--max-events", 1, "--split", "0/0/100"], None),
        (["--split", "test=1000-1005"], None),
    ],
)
def test_a_build_says_which_splits_stay_empty(call, trackml_events, tmp_path, options, empty):
    code, said, err = call(trackml_events, tmp_path / "out", *options)
    assert code == 0, err
    notes = [line for line in said.splitlines() if line.startswith("note:")]
    if empty is None:
        assert notes == []
    else:
        assert len(notes) == 1
        assert notes[0].startswith(
            f"note: no clouds in {empty}: training needs train and valid, eval needs test"
        )
        assert "--split 0/0/100" in notes[0]
