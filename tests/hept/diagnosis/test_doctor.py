"""The doctor finds nothing wrong here, and finds what is broken on purpose."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import hept
from hept.diagnosis import diagnosis, kernels, steps
from hept.diagnosis.made_up_event import draw_event, write_events
from hept.metrics import retrieval

CPU = torch.device("cpu")

# Small sizes, then what is to be broken, then the command.
RUN = """
import sys
from hept.diagnosis import diagnosis
diagnosis.SIZES = (500,)
{breakage}
from hept_cli.train import main
sys.argv = ["hept-train", "doctor", "--device", "cpu", "--threads", "1", "--json", sys.argv[1]]
main()
"""
WRONG_KERNEL = """
from hept.attention.kernels import BACKENDS
right = BACKENDS["native"]
BACKENDS["native"] = lambda operands, layout: right(operands, layout) * 1.001
"""


def run_doctor(path, breakage=""):
    script = textwrap.dedent(RUN).format(breakage=breakage)
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert path.exists(), done.stderr[-2000:]
    return done, {each["name"]: each for each in json.loads(path.read_text())["verdicts"]}


def test_a_machine_that_computes_right(tmp_path):
    done, found = run_doctor(tmp_path / "doctor.json")
    assert done.returncode == 0, done.stdout
    assert {each["status"] for each in found.values()} <= {"ok", "slow", "skipped"}
    assert list(found) == [
        "versions",
        "device",
        "attention, plain",
        "attention, native",
        "attention, triton",
        "loss, InfoNCE",
        "metric, AP@k",
        "whole model",
        "determinism",
        "half precision, bf16-mixed",
        "half precision, 16-mixed",
        "two processes",
        "times, 500 points",
        "memory, 500 points",
        "loader, 500 points",
    ]
    assert found["attention, triton"]["status"] == "skipped"
    times = found["times, 500 points"]["figures"]
    parts = ("forward", "backward", "loss", "step")
    assert set(times) == {f"{part}, {whose}" for part in parts for whose in ("ours", "literal")}
    assert min(times.values()) > 0
    assert found["versions"]["figures"]["torch"] == torch.__version__
    assert "Nothing is wrong." in done.stdout


def test_a_kernel_that_computes_wrong(tmp_path):
    done, found = run_doctor(tmp_path / "doctor.json", WRONG_KERNEL)
    assert done.returncode == 1
    assert {name for name, each in found.items() if each["status"] == "wrong"} == {"attention, native"}
    assert "1 of 15 wrong" in done.stdout


def statuses(verdicts):
    return {verdict.name: verdict.status for verdict in verdicts}


def test_a_wrong_loss_and_a_wrong_metric(monkeypatch):
    def wrong_loss(x, *others):
        return hept_loss(x, *others) * (1.001 if x.dtype == torch.float32 else 1.0)

    hept_loss, count = kernels.info_nce, retrieval._count
    monkeypatch.setattr(kernels, "info_nce", wrong_loss)
    monkeypatch.setattr(retrieval, "_count", lambda *given: count(*given) * 0.9)
    found = statuses(kernels.check_kernels(CPU))
    assert {name for name, status in found.items() if status == "wrong"} == {"loss, InfoNCE", "metric, AP@k"}


def test_steps_that_differ_and_half_precision_that_is_far_off(monkeypatch):
    losses = iter([[3.0, 2.0], [3.0, 2.0 + 1e-9], [3.0, 2.0], [3.0, float("nan")], [3.0, 2.1]])
    monkeypatch.setattr(steps, "train", lambda *_, **__: next(losses))
    assert statuses(steps.check_steps(CPU)) == {
        "determinism": "wrong",
        "half precision, bf16-mixed": "wrong",
        "half precision, 16-mixed": "wrong",
    }


def test_a_check_that_fails_is_a_verdict_and_the_others_go_on(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("CUDA error: an illegal\nmemory access")

    monkeypatch.setattr(diagnosis, "SIZES", ())
    for name in ("check_kernels", "check_steps", "check_two_processes"):
        monkeypatch.setattr(diagnosis, name, fail)
    found = hept.doctor(device="cpu", threads=1)
    assert not found.is_well
    assert [each.name for each in found.verdicts] == [
        "versions",
        "device",
        "kernels",
        "training steps",
        "two processes",
    ]
    assert found.verdicts[2].text == "RuntimeError: CUDA error: an illegal memory access"


def test_the_made_up_event_has_the_pairs_it_promises(tmp_path):
    event = draw_event(700)
    particle, n = event.particle.numpy(), 700
    same = (particle[:, None] == particle) & ~np.eye(n, dtype=bool)
    near = np.abs(np.arange(n)[:, None] - np.arange(n)) <= 128
    for pairs, expected in (
        (event.positives, same),
        (event.negatives, near & ~same & ~np.eye(n, dtype=bool)),
    ):
        found = np.zeros((n, n), dtype=bool)
        found[tuple(pairs.as_edges().numpy())] = True
        np.testing.assert_array_equal(found, expected)
        assert pairs.n_pairs == expected.sum()
    from hepdata import open_dataset, validate

    dataset = write_events(tmp_path / "events", 300, {"train": 2, "valid": 1, "test": 0})
    validate(dataset)
    assert len(open_dataset(dataset)["train"]) == 2


@pytest.mark.parametrize("seed", [0, 1])
def test_training_steps_lower_the_loss(seed):
    losses = steps.train(draw_event(600, seed=seed), CPU)
    assert losses[-1] < losses[0]
