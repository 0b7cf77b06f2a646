"""Training in two processes against training in one; as a program, the one in two processes.

Two processes with a cloud each make the step of one process with both clouds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from hept.diagnosis.made_up_event import write_events
from hept.diagnosis.verdict import Verdict, compare_losses, judge, skip
from hept.runs.folder import RunFolder
from hept.settings.load import load_config
from hept.training.trainer import fit

TITLE = "two processes"
# Gradients are summed in another order.
MOST = 1e-3
SETTINGS = (
    "model.n_layers=1",
    "model.hidden_dim=8",
    "model.n_heads=2",
    "model.dropout=0",
    "loss.random_negatives=0",
    "epochs=2",
)


def check_two_processes(folder: Path, device: torch.device) -> Verdict:
    """A small training in two processes has the losses of the same in one."""
    if device.type == "cuda" and torch.cuda.device_count() < 2:
        return skip(TITLE, "one GPU")
    if device.type == "mps":
        return skip(TITLE, "one GPU")
    dataset = write_events(folder / "two-processes", 300, {"train": 2, "valid": 1, "test": 0})
    config = load_config("tracking-demo", [*SETTINGS, "batch_size=2"])
    fit(config, dataset, folder / "one", device=str(device), threads=1)
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(dataset), str(folder / "two"), device.type],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return judge(TITLE, False, f"ended with code {done.returncode}: {lines[-1][:200]}")
    one, two = (_read_losses(folder / name) for name in ("one", "two"))
    error = compare_losses(two, one)
    text = f"loss {two[-1]:.6g} in two for {one[-1]:.6g} in one, off by {error:.1e}"
    return judge(TITLE, error < MOST, text, {"error": error})


def _read_losses(run: Path) -> list[float]:
    return [float(row["train_loss"]) for row in RunFolder(run).read_rows("metrics")]


def main(dataset: str, run: str, device: str) -> None:
    """Train in two processes."""
    config = load_config("tracking-demo", [*SETTINGS, "batch_size=1"])
    fit(config, dataset, Path(run), device=device, devices=2, strategy="ddp", threads=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
