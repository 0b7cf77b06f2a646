import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from hept.runs.folder import RunFolder
from hept.runs.lock import lock_run
from hept.training.saved_state import read_state
from hept.training.trainer import fit

SCRIPT = """
import sys
from pathlib import Path
from hept.settings.load import load_config
from hept.training.saved_state import read_state
from hept.training.trainer import fit

{before}
if __name__ == "__main__":
    config, dataset, out = sys.argv[1:]
    fit(load_config(config), dataset, Path(out), device="cpu", devices=2, strategy="ddp")
"""

INTERRUPT_IN_EXCHANGE = """
import itertools, os, signal
from lightning_fabric import Fabric

all_gather, count = Fabric.all_gather, itertools.count(1)

def exchange(fabric, *args, **settings):
    if fabric.global_rank == 0 and next(count) == {number}:
        os.kill(os.getpid(), signal.SIGTERM)
    return all_gather(fabric, *args, **settings)

Fabric.all_gather = exchange
"""


def start_two(config, dataset, out, before=""):
    """A training in two processes, each of which runs `before` first."""
    folder = out.parent
    (folder / "fit.py").write_text(SCRIPT.format(before=before))
    (folder / "config.yaml").write_text(config.to_yaml())
    command = [sys.executable, *map(str, (folder / "fit.py", folder / "config.yaml", dataset, out))]
    return subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_two_processes_are_one_with_the_joined_batch(tracking_dataset, small_config, tmp_path, kind):
    # One step; the first moments after it are multiples of the gradient.
    changes = ["model.dropout=0", "loss.random_negatives=0", "epochs=1", "optimizer.clip_norm=null"]
    if kind == "muon":
        if not hasattr(torch.optim, "Muon"):
            pytest.skip("needs torch 2.9")
        changes += ["optimizer.kind=muon", "loss.negatives=mined"]
    two = tmp_path / "two"
    process = start_two(small_config("tracking-demo", *changes, "batch_size=2"), tracking_dataset, two)
    assert process.wait(timeout=1200) == 0
    one = fit(small_config("tracking-demo", *changes, "batch_size=4"), tracking_dataset, tmp_path / "one").run
    gradients = [
        torch.cat(
            [
                entry.get("exp_avg", entry.get("momentum_buffer")).flatten()
                for part in saved.get("parts", [saved])
                for entry in part["state"].values()
            ]
        )
        for saved in (read_state(run / "resume.pt")["optimizer"] for run in (one, two))
    ]
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

    config = small_config("tracking-demo", "data.features=null")
    process = start_two(config, make_dataset(change=spoil), tmp_path / "run")
    _, errors = process.communicate(timeout=1200)
    assert process.returncode != 0
    assert "found a loss of nan on event 3 sector 0" in errors or "a bad loss in another process" in errors


@pytest.mark.parametrize(("number", "n_steps"), [(3, 3), (4, 4)])
def test_an_interrupt_during_the_exchange_stops_both_after_the_next_step(
    tracking_dataset, small_config, tmp_path, number, n_steps
):
    # Ten epochs of two steps. An exchange after each step asks all processes for interrupts, another one
    # after validation. The flag was read before: it is found after the next step.
    run = tmp_path / "run"
    config = small_config("tracking-demo", "epochs=10")
    process = start_two(config, tracking_dataset, run, before=INTERRUPT_IN_EXCHANGE.format(number=number))
    try:
        assert process.wait(timeout=1200) == 0
    finally:
        process.kill()
    assert len(RunFolder(run).read_rows("steps")) == n_steps
    assert read_state(run / "resume.pt")["position"]["step"] == n_steps


def test_both_processes_hear_that_another_training_has_the_folder(tracking_dataset, small_config, tmp_path):
    run = tmp_path / "run"
    with lock_run(run, tell=print):
        process = start_two(small_config(), tracking_dataset, run)
        _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    assert f"found another training in progress (process {os.getpid()} on" in errors
    assert not run.exists()
