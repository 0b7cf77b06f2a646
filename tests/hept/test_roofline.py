"""The page of expected times: its formula, and that it was written from counts like those of today."""

import json
import re

import pytest
import torch

from benchmarks import roofline
from benchmarks.bench_gpu import count
from benchmarks.stand_in import can_build

GPU = roofline.GPU("Test", bandwidth=1e12, float32=10e12, tf32=60e12, float64=1e12)


def cost(launches=0.0, gigabytes=0.0, gflop=0.0, double=0.0):
    return {"launches": launches, "GB": gigabytes, "GFLOP": gflop, "GFLOP of float64": double}


@pytest.mark.parametrize(
    ("counted", "is_fused", "expected"),
    [
        (cost(gigabytes=750), False, (1.0, "memory")),
        (cost(gflop=7500), False, (1.0, "arithmetic")),
        # Three products of TF32 each.
        (cost(gflop=15000), True, (1.0, "arithmetic")),
        (cost(gflop=3750, double=375), False, (1.0, "arithmetic")),
        (cost(launches=1000, gigabytes=0.75), False, (4e-3, "launches")),
    ],
)
def test_the_slowest_of_memory_arithmetic_and_launches(counted, is_fused, expected):
    seconds, bound = roofline.estimate(GPU, counted, is_fused=is_fused)
    assert (seconds, bound) == (pytest.approx(expected[0]), expected[1])


def test_a_file_of_the_doctor_stands_beside_its_estimate(tmp_path, monkeypatch):
    verdicts = [
        {"name": "device", "figures": {"GPU": "NVIDIA A100-SXM4-40GB"}},
        {"name": "times, 6,000 points", "figures": {"forward, ours": 1.25, "forward, literal": 9.5}},
    ]
    (tmp_path / "a100.json").write_text(json.dumps({"verdicts": verdicts}))
    monkeypatch.setattr(roofline, "MEASURED", tmp_path)
    passes = ("forward, ours", "forward, literal", "step, ours", "step, literal")
    page = roofline.render({6000: dict.fromkeys(passes, cost(10, 1, 1))})
    assert re.search(r"\| A100 \| 6,000 \| forward .*\| 1\.2 / 9\.5 \|\n", page)
    assert re.search(r"\| A100 \| 6,000 \| step .*\| – / – \|\n", page)
    assert re.search(r"\| H100 \| 6,000 \| forward .*\| – / – \|\n", page)


@pytest.mark.skipif(
    not (torch.cuda.is_available() or can_build()), reason="a stand-in for a GPU needs a C++ compiler"
)
def test_the_page_is_of_today():
    text = roofline.PAGE.read_text(encoding="utf-8")
    for name, now in count(6_000).items():
        row = re.search(rf"\| 6,000 \| {name} \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", text)
        assert row is not None, f"{name}: run `python -m benchmarks.roofline`"
        found = [float(each) for each in row.groups()]
        today = [now["launches"], now["GB"], now["GFLOP"]]
        assert found == pytest.approx(today, rel=0.1), f"{name}: run `python -m benchmarks.roofline`"
