"""The batch script of the documentation under bash: srun and scontrol are stand-ins, the rest is real."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hept.runs.folder import RunFolder

PAGE = Path(__file__).parents[3] / "docs" / "gpu-and-clusters.md"
STAND_INS = {
    # Slurm's --signal goes to the processes that srun starts, and not to the shell.
    "srun": 'echo $$ > "$STAND_INS/pid.new"; mv "$STAND_INS/pid.new" "$STAND_INS/pid"; exec "$@"',
    "scontrol": 'echo "$@" >> "$STAND_INS/requeued"',
    "hept-train": f'exec "{sys.executable}" -m hept "$@"',
}


@pytest.fixture
def script(tracking_dataset, small_config, tmp_path):
    """The script of the page with a run that does not end by itself, and the programs that it calls."""
    text = re.search(r"#!/bin/bash\n.*?exit \$code\n", PAGE.read_text(), re.DOTALL)[0]
    command = "fit DATASET --preset tracking-6k --device cuda --out runs/a"
    assert command in text
    config = tmp_path / "config.yaml"
    config.write_text(small_config("tracking-demo", "epochs=1000000").to_yaml())
    ours = f"fit {tracking_dataset} --preset {config} --device cpu --out {tmp_path / 'run'}"
    (tmp_path / "job.sh").write_text(text.replace(command, ours))
    for name, body in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path / "job.sh"


def run_and_signal(script, number):
    """Run the script and send a signal to what srun started, some steps later; returns its exit code."""
    folder = script.parent
    steps = folder / "run" / "steps.csv"
    before = steps.stat().st_size if steps.exists() else 0
    environment = os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "STAND_INS": str(folder),
        "SLURM_JOB_ID": "1234",
        "OMP_NUM_THREADS": "1",
    }
    (folder / "pid").unlink(missing_ok=True)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["bash", script], env=environment, stdout=log, stderr=log)
        try:
            while process.poll() is None and not (steps.exists() and steps.stat().st_size > before + 100):
                time.sleep(0.02)
            assert process.poll() is None, (folder / "log").read_text()
            os.kill(int((folder / "pid").read_text()), number)
            return process.wait(timeout=600)
        finally:
            process.kill()


def test_the_script_saves_is_queued_again_and_goes_on(script):
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert run_and_signal(script, signal.SIGUSR1) == 138
    requeued = script.with_name("requeued")
    assert requeued.read_text() == "requeue 1234\n"
    n_first = len(RunFolder(script.parent / "run").read_rows("steps"))
    assert run_and_signal(script, signal.SIGTERM) == 143
    assert requeued.read_text() == "requeue 1234\n" * 2
    steps = [int(row["step"]) for row in RunFolder(script.parent / "run").read_rows("steps")]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > n_first


def test_the_script_is_not_queued_again_after_an_error(script):
    (script.parent / "config.yaml").write_text("epochs: none\n")
    environment = os.environ | {
        "PATH": f"{script.parent}:{os.environ['PATH']}",
        "STAND_INS": str(script.parent),
    }
    done = subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert not script.with_name("requeued").exists()
