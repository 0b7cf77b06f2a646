import os
import subprocess
import sys

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


def test_two_processes_are_one_with_the_joined_batch(tracking_dataset, small_config, tmp_path):
    # One step; Adam's first moment after it is a tenth of the gradient.
    changes = ("model.dropout=0", "loss.random_negatives=0", "epochs=1", "optimizer.clip_norm=null")
    script, config = tmp_path / "fit.py", tmp_path / "config.yaml"
    script.write_text(SCRIPT)
    config.write_text(small_config("tracking-demo", *changes, "batch_size=2").to_yaml())
    two = tmp_path / "two"
    subprocess.run(
        [sys.executable, str(script), str(config), str(tracking_dataset), str(two)],
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    one = fit(small_config("tracking-demo", *changes, "batch_size=4"), tracking_dataset, tmp_path / "one").run
    states = [load_resume_state(run / "resume.pt")["optimizer"]["state"] for run in (one, two)]
    gradients = [torch.cat([entry["exp_avg"].flatten() for entry in state.values()]) for state in states]
    assert gradients[0].norm() > 0
    assert (gradients[0] - gradients[1]).norm() < 1e-5 * gradients[0].norm()
    losses = [float(RunFolder(run).read_rows("steps")[0]["loss"]) for run in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert len(RunFolder(two).read_rows("steps")) == 1
