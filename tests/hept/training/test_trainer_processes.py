import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from hept.checkpoint import load_resume_state
from hept.run_folder import RunFolder
from hept.training.trainer import fit

SCRIPT = """
import sys
from pathlib import Path
from hept.config import load_config
from hept.training.trainer import fit

if __name__ == "__main__":
    config, dataset, out = sys.argv[1:]
    fit(load_config(config), dataset, Path(out), accelerator="cpu", devices=2, strategy="ddp")
"""


def start_two(config, dataset, out):
    """A training in two processes."""
    folder = out.parent
    (folder / "fit.py").write_text(SCRIPT)
    (folder / "config.yaml").write_text(config.to_yaml())
    command = [sys.executable, *map(str, (folder / "fit.py", folder / "config.yaml", dataset, out))]
    return subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


def test_two_processes_are_one_with_the_joined_batch(tracking_dataset, small_config, tmp_path):
    # One step; Adam's first moment after it is a tenth of the gradient.
    changes = ("model.dropout=0", "loss.random_negatives=0", "epochs=1", "optimizer.clip_norm=null")
    two = tmp_path / "two"
    process = start_two(small_config("tracking-demo", *changes, "batch_size=2"), tracking_dataset, two)
    assert process.wait(timeout=300) == 0
    one = fit(small_config("tracking-demo", *changes, "batch_size=4"), tracking_dataset, tmp_path / "one").run
    states = [load_resume_state(run / "resume.pt")["optimizer"]["state"] for run in (one, two)]
    gradients = [torch.cat([entry["exp_avg"].flatten() for entry in state.values()]) for state in states]
    assert gradients[0].norm() > 0
    assert (gradients[0] - gradients[1]).norm() < 1e-5 * gradients[0].norm()
    losses = [float(RunFolder(run).read_rows("steps")[0]["loss"]) for run in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert len(RunFolder(two).read_rows("steps")) == 1


def test_a_bad_cloud_in_one_process_stops_both(make_dataset, small_config, tmp_path):
    def spoil(cloud):
        if cloud.event_id == 3:
            cloud.columns["r"][5] = np.nan
        return cloud

    config = small_config("tracking-demo", "data.standardise=false")
    process = start_two(config, make_dataset(change=spoil), tmp_path / "run")
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "found a loss of nan on event 3 sector 0" in errors or "a bad loss in another process" in errors


def test_an_interrupt_of_one_process_stops_both_after_the_step(tracking_dataset, small_config, tmp_path):
    run = tmp_path / "run"
    process = start_two(small_config("tracking-demo", "epochs=100000"), tracking_dataset, run)
    try:
        steps = run / "steps.csv"
        while not (steps.exists() and len(steps.read_text().splitlines()) > 2):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    finally:
        process.kill()
    rows = RunFolder(run).read_rows("steps")
    assert load_resume_state(run / "resume.pt")["position"]["step"] == len(rows)
