"""Out of memory: one line with the amount needed and the settings to lower."""

import numpy as np
import pytest
import torch

from hepdata.errors import JobError
from hept.devices.out_of_memory import memory_errors
from hept.evaluation.evaluator import evaluate
from hept.training.trainer import fit

# Torch's message on a GPU.
CUDA = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15.77 GiB of which "
    "1.20 GiB is free. Including non-PyTorch memory, this process has 14.56 GiB memory in use."
)


def raise_cuda():
    raise torch.OutOfMemoryError(CUDA)


@pytest.mark.parametrize(
    ("allocate", "message"),
    [
        (lambda: torch.empty(10**15), r"not enough memory for 3.73e\+06 GiB more; expected .* machine; mend"),
        (lambda: np.zeros(10**15), r"found not enough memory for 7.11 PiB more"),
        (lambda: torch.empty(2**40, 2**40), r"found not enough memory; expected"),
        (raise_cuda, r"for 20.00 GiB more; expected .* GPU 0 \(15.77 GiB, of which 1.20 GiB is free\)"),
    ],
)
def test_what_was_needed_is_told(allocate, message):
    with pytest.raises(JobError, match=message), memory_errors("here", remedy="mend"):
        allocate()


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="size"), memory_errors("here"):
        torch.zeros(2) @ torch.zeros(3)


@pytest.mark.parametrize(
    "setting",
    # Too large for any machine: when the model is built, and in the first step.
    ["model.hidden_dim=10000000", "loss.random_negatives=1e12"],
)
def test_training_without_memory_names_settings(tracking_dataset, small_config, tmp_path, setting):
    with pytest.raises(JobError, match=r"run: found not enough memory.*lower batch_points or batch_size"):
        fit(small_config("tracking-demo", setting), tracking_dataset, tmp_path / "run")


def test_evaluation_without_memory_names_the_cloud(tracking_dataset, small_config, tmp_path, monkeypatch):
    from hept.model.network import Network

    run = fit(small_config("tracking-demo", "epochs=1"), tracking_dataset, tmp_path / "run").run
    monkeypatch.setattr(Network, "forward", lambda *_: torch.empty(10**15))
    with pytest.raises(JobError, match=r"event 7 sector 0 \(170 points\): found not enough memory"):
        evaluate(run, tracking_dataset)
