import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from benchmarks.stand_in import build_stand_in, can_build
from hept.losses import mining
from hept.losses.mining import join_pairs, mine_negatives, pair_within_particles

# Two clouds; in the second one all points but one are of the same particle.
OFFSETS = torch.tensor([0, 50, 60])


@pytest.fixture
def points():
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(60, 4, generator=generator)
    particle = torch.cat([torch.randint(0, 9, (50,), generator=generator), torch.full((10,), 9)])
    particle[59] = 10
    return x, particle, torch.rand(60, generator=generator) < 0.6


def lists(rows):
    return [sorted(rows.idx[a:b].tolist()) for a, b in zip(rows.ptr[:-1], rows.ptr[1:], strict=True)]


@pytest.mark.parametrize("chunk", [1, 130, 2**22])
@pytest.mark.parametrize("window", [None, 3, 20])
def test_mined_negatives_are_the_nearest_of_other_particles(points, monkeypatch, window, chunk):
    monkeypatch.setattr(mining, "CHUNK", chunk)
    x, particle, is_anchor = points
    expected = []
    for anchor in range(60):
        cloud = range(50) if anchor < 50 else range(50, 60)
        near = [
            other
            for other in cloud
            if particle[other] != particle[anchor] and (window is None or abs(other - anchor) <= window)
        ]
        near.sort(key=lambda other: float((x[other] - x[anchor]).norm()))
        expected.append(sorted(near[:5]) if is_anchor[anchor] else [])
    found = mine_negatives(x, particle, is_anchor, OFFSETS, n_negatives=5, window=window)
    assert lists(found) == expected


def test_positives_are_all_other_points_of_the_particle(points):
    _, particle, is_anchor = points
    expected = [
        [other for other in range(60) if particle[other] == particle[anchor] and other != anchor]
        if is_anchor[anchor]
        else []
        for anchor in range(60)
    ]
    assert lists(pair_within_particles(particle, is_anchor)) == expected


def test_joined_lists_hold_each_partner_once(points):
    x, particle, is_anchor = points
    every = torch.ones(60, dtype=torch.bool)
    one = mine_negatives(x, particle, every, OFFSETS, n_negatives=4)
    two = mine_negatives(-x.flip(1), particle, every, OFFSETS, n_negatives=6)
    expected = [
        sorted({*a, *b}) if is_there else []
        for a, b, is_there in zip(lists(one), lists(two), is_anchor, strict=True)
    ]
    joined = join_pairs(one, two, is_anchor)
    assert lists(joined) == expected
    assert joined.n_pairs < one.n_pairs + two.n_pairs


def test_without_anchors_there_are_no_pairs(points):
    x, particle, _ = points
    nobody = torch.zeros(60, dtype=torch.bool)
    mined = mine_negatives(x, particle, nobody, OFFSETS, n_negatives=5)
    assert mined.n_pairs == pair_within_particles(particle, nobody).n_pairs == 0
    assert mined.ptr.tolist() == [0] * 61


RUN = """
import json, sys
from benchmarks.stand_in import end_process, load_stand_in
load_stand_in(sys.argv[1])
import torch
from benchmarks.counted_values import OnGPU, counted_waits
from hept.devices.determinism import deterministic
from hept.losses import mining

generator = torch.Generator().manual_seed(3)
particle = torch.randint(0, 40, (300,), generator=generator)
inputs = torch.randn(300, 3, generator=generator), particle, torch.rand(300, generator=generator) < 0.6

def make_pairs(inputs, offsets):
    x, particle, is_anchor = inputs
    mined = mining.mine_negatives(x, particle, is_anchor, offsets, n_negatives=5, window=100)
    rows = mining.pair_within_particles(particle, is_anchor), mined
    return [each for pairs in rows for each in (pairs.ptr, pairs.idx)]

offsets, found = torch.tensor([0, 200, 300]), {}
expected = make_pairs(inputs, offsets)
for chunk in (2**20, 1000):
    mining.GPU_CHUNK = chunk
    with counted_waits() as waits, deterministic():
        pairs = make_pairs([OnGPU(each) for each in inputs], OnGPU(offsets))
    found[chunk] = {
        "same": all(torch.equal(a.inner, b) for a, b in zip(pairs, expected)), "waits": sum(waits.values())
    }
print(json.dumps(list(found.values())))
end_process()
"""


def test_on_a_gpu_the_host_does_not_wait_for_each_chunk(tmp_path):
    if not (torch.cuda.is_available() or can_build()):
        pytest.skip("a stand-in for a GPU needs a C++ compiler")
    library = "" if torch.cuda.is_available() else str(build_stand_in(tmp_path))
    command = [sys.executable, "-c", textwrap.dedent(RUN), library]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    # 2 chunks, then dozens.
    few, many = json.loads(done.stdout)
    assert few["same"]
    assert many["same"]
    assert few["waits"] == many["waits"] <= 4
