"""Builds killed without warning: the same command finishes them, with the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_build.py")


def run(raw, out, workers, when):
    command = [sys.executable, str(SCRIPT), str(raw), str(out), str(workers), when]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def children_of(group):
    """Processes of a process group that are still there, from /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def left_behind(group):
    """What does not go by itself: the last of a group closes its pipes a moment before it ends."""
    for _ in range(600):
        if not children_of(group):
            return []
        time.sleep(0.05)
    return children_of(group)


@pytest.fixture(scope="module")
def whole(trackml_events, tmp_path_factory):
    """The undisturbed build, and how many steps it takes."""
    out = tmp_path_factory.mktemp("whole") / "dataset"
    result = run(trackml_events, out, 1, "never")
    assert result.returncode == 0, result.stderr
    return content(out), int(result.stdout)


def check_resumed(trackml_events, out, expected, workers):
    result = run(trackml_events, out, workers, "never")
    assert result.returncode == 0, result.stderr
    assert content(out) == expected
    assert [path.name for path in out.parent.iterdir()] == ["dataset"]


@pytest.mark.parametrize("share", [0.3, 0.8, 0.95])
def test_killed_at_any_step(trackml_events, tmp_path, whole, share):
    expected, n_steps = whole
    killed = run(trackml_events, tmp_path / "dataset", 1, f"step:{int(share * n_steps)}")
    assert killed.returncode == -signal.SIGKILL
    check_resumed(trackml_events, tmp_path / "dataset", expected, workers=1)


@pytest.mark.slow
def test_killed_at_every_step(trackml_events, tmp_path, whole):
    expected, n_steps = whole
    for step in range(1, n_steps + 1):
        folder = tmp_path / str(step)
        folder.mkdir()
        run(trackml_events, folder / "dataset", 1, f"step:{step}")
        check_resumed(trackml_events, folder / "dataset", expected, workers=1)


def test_killed_again_and_again(trackml_events, tmp_path, whole):
    expected, _ = whole
    for _ in range(3):
        killed = run(trackml_events, tmp_path / "dataset", 1, "event:2")
        if killed.returncode == 0:
            break
    check_resumed(trackml_events, tmp_path / "dataset", expected, workers=1)


def test_killed_with_four_workers_leaves_no_process_behind(trackml_events, tmp_path, whole):
    expected, _ = whole
    command = [sys.executable, str(SCRIPT), str(trackml_events), str(tmp_path / "dataset"), "4", "event:1"]
    # The pipe closes when the last process of the group ends: workers hold its ends too.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    process.communicate(timeout=1200)
    assert process.returncode == -signal.SIGKILL
    assert left_behind(process.pid) == []
    check_resumed(trackml_events, tmp_path / "dataset", expected, workers=4)


def test_a_killed_worker_is_reported_and_the_build_goes_on(trackml_events, tmp_path, whole):
    expected, _ = whole
    code = (
        "import os, signal, sys, multiprocessing\n"
        "from contextlib import suppress\n"
        "from pathlib import Path\n"
        "from hepdata.pipeline import engine\n"
        "from hepdata.pipeline.build import build_dataset\n"
        "from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking\n"
        # Killing a worker that has finished goes unnoticed: here the second shard never finishes.
        "build = engine.build_shard\n"
        "if multiprocessing.parent_process():\n"
        "    engine.build_shard = lambda source, job:"
        " build(source, job) if 'train-00000' in job.plan.name else signal.pause()\n"
        "class Killer:\n"
        "    def start(self, *a, **more): pass\n"
        "    def finish(self): pass\n"
        "    def advance(self, steps=1, note=''):\n"
        "        for child in multiprocessing.active_children():\n"
        "            with suppress(ProcessLookupError): os.kill(child.pid, signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    source = open_tracking(Path(sys.argv[1]), TRACKING_PRESETS['tracking-60k'])\n"
        "    build_dataset(source, Path(sys.argv[2]), workers=2, events_per_shard=2, progress=Killer())\n"
    )
    script = tmp_path / "killer.py"
    script.write_text(code)
    out = tmp_path / "place" / "dataset"
    command = [sys.executable, str(script), str(trackml_events), str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert "JobError" in result.stderr
    assert "a worker process that died" in result.stderr
    check_resumed(trackml_events, out, expected, workers=1)


def test_ctrl_c_stops_everything(trackml_events, tmp_path, whole):
    expected, _ = whole
    command = [sys.executable, str(SCRIPT), str(trackml_events), str(tmp_path / "dataset"), "2", "wait:1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout.readline() == b"waiting\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=1200)
    assert b"KeyboardInterrupt" in errors
    assert left_behind(process.pid) == []
    check_resumed(trackml_events, tmp_path / "dataset", expected, workers=1)


def test_workers_that_die_before_they_are_told_what_to_do(trackml_events, tmp_path):
    """A script without the guard that new processes need: they run it again, and Python ends them."""
    script = tmp_path / "script.py"
    arguments = f"{str(trackml_events)!r}, {str(tmp_path / 'dataset')!r}, workers=2"
    script.write_text(f"import hepdata\nhepdata.build_tracking({arguments})\n")
    result = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=1200
    )
    assert result.returncode == 1
    assert "JobError" in result.stderr
    assert "a script needs `if __name__ == '__main__':` above the call" in result.stderr
