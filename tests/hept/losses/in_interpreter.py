"""InfoNCE by Triton on a CPU, in Triton's interpreter: `python in_interpreter.py NAME` prints JSON.

It runs in its own process, since Triton chooses its interpreter when it is imported.
"""

import json
import os
import sys
from functools import partial

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl
from conftest import literal_info_nce, random_cloud, to_rows

from benchmarks.counted_gathers import count_gathers
from benchmarks.memory import map_memory
from benchmarks.traffic import count_loss
from hept.losses import RandomNegatives, info_nce
from hept.losses.fused import CHUNK, find_constants, sum_pairs
from hept.losses.particles import weigh_anchors
from hept.losses.triton_pairs import add_anchors, draw_points


def parts(cloud):
    return cloud.positives, cloud.negatives, cloud.particle, cloud.is_anchor


def value_and_gradient(loss, x):
    x = x.clone().requires_grad_()
    value = loss(x)
    (gradient,) = torch.autograd.grad(value, x)
    return value.detach(), gradient


def errors(cloud, literal, **options):
    """Relative errors of value and gradient against a function of float64 embeddings."""
    found = value_and_gradient(lambda x: info_nce(x, *parts(cloud), **options), cloud.x.float())
    exact = value_and_gradient(literal, cloud.x.float().double())
    assert all(each.dtype == torch.float32 for each in found)
    return [float((a - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]


def definition():
    """Gradients in float32, and exact ones."""
    found = check_definition()
    torch.use_deterministic_algorithms(True)
    return found | {f"{case}, exact": each for case, each in check_definition().items()}


def check_definition():
    found = {}
    for similarity in ("published", "paper"):
        cloud, options = random_cloud(0), {"tau": 0.07, "similarity": similarity}
        literal = partial(as_literal, cloud=cloud, **options)
        found[similarity] = errors(cloud, literal, **options)
    cloud = random_cloud(1, n_points=200, n_particles=20, n_negatives=150)
    found["lists of several chunks"] = errors(cloud, partial(as_float64, cloud=cloud))
    cloud = random_cloud(2)
    listed = torch.repeat_interleave(torch.arange(60), cloud.negatives.ptr.diff())
    keep = listed % 4 != 1
    cloud.negatives = to_rows(listed[keep], cloud.negatives.idx[keep], 60)
    found["points without negatives"] = errors(cloud, partial(as_literal, cloud=cloud))
    return found


def as_literal(x, cloud, **options):
    """The definition."""
    return literal_info_nce(x, *parts(cloud), **options)


def as_float64(x, cloud, **options):
    """The plain implementation, which is used for float64."""
    return info_nce(x, *parts(cloud), **options)


def edges():
    cloud = random_cloud(4)
    together = value_and_gradient(lambda x: info_nce(x, *parts(cloud)), torch.zeros(60, 5))
    torch.use_deterministic_algorithms(True)
    again = [value_and_gradient(lambda x: info_nce(x, *parts(cloud)), cloud.x.float()) for _ in range(2)]
    twice = info_nce(cloud.x.float(), *parts(cloud), normaliser=2.0)
    n_particles = len(torch.unique(cloud.particle[cloud.is_anchor & (cloud.positives.ptr.diff() > 0)]))
    cloud.is_anchor[:] = False
    nothing = value_and_gradient(lambda x: info_nce(x, *parts(cloud)), cloud.x.float())
    return {
        "points together": [float(together[0]) > 0, bool((together[1] == 0).all())],
        "no anchor": [float(nothing[0]) == 0, bool((nothing[1] == 0).all())],
        "same again": [torch.equal(a, b) for a, b in zip(*again, strict=True)],
        "normaliser": [abs(float(twice / again[0][0]) - n_particles / 2) < 1e-4 * n_particles],
    }


def draws():
    """Random negatives against the same points in the list of negatives."""
    cloud = random_cloud(7)
    offsets = torch.tensor([0, 25, 25, 60])
    cloud.negatives = within(cloud.negatives, offsets)
    seeds = [int(torch.randint(2**31, (), generator=torch.Generator().manual_seed(s))) for s in (3, 4)]
    drawn = [read_draws(cloud, offsets, seed) for seed in seeds]
    anchors = torch.repeat_interleave(torch.arange(60), cloud.negatives.ptr.diff())
    more = random_cloud(7)
    more.negatives = to_rows(
        torch.cat([anchors, drawn[0][:, 0]]), torch.cat([cloud.negatives.idx, drawn[0][:, 1]]), 60
    )
    random = RandomNegatives(0.5, offsets, torch.Generator().manual_seed(3))
    cloud_of = torch.bucketize(torch.arange(60), offsets[1:], right=True)
    return {
        "errors": errors(cloud, partial(as_literal, cloud=more), random_negatives=random),
        "in their cloud": bool((cloud_of[drawn[0][:, 0]] == cloud_of[drawn[0][:, 1]]).all()),
        "of other particles": bool((cloud.particle[drawn[0][:, 0]] != cloud.particle[drawn[0][:, 1]]).all()),
        "other draws from another seed": not torch.equal(drawn[0][:20], drawn[1][:20]),
        "some": len(drawn[0]) > 20,
    }


def traffic():
    """Bytes by formula and as counted, if every point is an anchor."""
    cloud = random_cloud(3, n_points=80, n_particles=8, n_negatives=70)
    cloud.is_anchor[:] = True
    lists = cloud.positives.ptr, cloud.positives.idx, cloud.negatives.ptr, cloud.negatives.idx
    weight, _ = weigh_anchors(cloud.positives.ptr.diff(), cloud.particle, cloud.is_anchor)
    found = {}
    for is_exact, size in ((False, 4), (True, 8)):
        inputs = cloud.x.float(), *lists, cloud.particle, weight, None, 0, 0.0, 0.05, True, is_exact
        with count_gathers() as counted:
            sum_pairs(*inputs)
        # Torch clears the gradient.
        cleared = size * cloud.x.numel()
        found[f"exact: {is_exact}"] = [count_loss(*inputs).n_bytes - cleared, counted.n_bytes]
    return found


def large():
    """Embeddings and pair lists at offsets beyond 2³¹ give the same results as the same ones alone."""
    cloud, n_anchors, n_there = random_cloud(5, n_points=40, n_particles=4), 20, 20
    weight = torch.rand(n_anchors, generator=torch.Generator().manual_seed(0))
    lists = []
    for pairs in (cloud.positives, cloud.negatives):
        anchors = torch.repeat_interleave(torch.arange(40), pairs.ptr.diff())
        keep = (anchors < n_anchors) & (pairs.idx >= 40 - n_there)
        lists.append(to_rows(anchors[keep], pairs.idx[keep], 40))
    results = []
    for n_points, begin in ((40, 0), (2**31 // 5 + 40, 2**31)):
        x, grad = map_memory((n_points, 5)), map_memory((n_points, 5))
        x[:n_anchors], x[-n_there:] = cloud.x[:n_anchors].float(), cloud.x[-n_there:].float()
        far = []
        for pairs in lists:
            idx = map_memory((begin + len(pairs.idx),), torch.int32)
            idx[begin:] = pairs.idx + n_points - 40
            far += [pairs.ptr + begin, idx]
        loss = torch.empty(n_anchors)
        # Without draws, neither particles nor offsets are read.
        add_anchors[n_anchors,](
            x, *far, far[0], weight, far[0], loss, grad, 0, 0.0, 0.05, 0,
            PUBLISHED=True, WITH_DRAWS=False, EXACT=False, **find_constants(5, 0),
        )  # fmt: skip
        results.append([loss, grad[:n_anchors].clone(), grad[-n_there:].clone()])
    is_moved = [bool((a != 0).any()) for a in results[0]]
    return {"moved": is_moved, "same": [torch.equal(a, b) for a, b in zip(*results, strict=True)]}


def within(rows, offsets):
    """Pairs whose points are in one cloud."""
    anchors = torch.repeat_interleave(torch.arange(60), rows.ptr.diff())
    cloud = torch.bucketize(torch.arange(60), offsets[1:], right=True)
    keep = cloud[anchors] == cloud[rows.idx]
    return to_rows(anchors[keep], rows.idx[keep], 60)


@triton.jit
def write_draws(out, seed, begin, size, T: tl.constexpr):
    t = tl.arange(0, T)
    anchor = tl.program_id(0).to(tl.int64)
    drawn = draw_points(seed, anchor, t, tl.load(begin + anchor), tl.load(size + anchor))
    tl.store(out + anchor * T + t, drawn)


def read_draws(cloud, offsets, seed):
    """(E, 2) anchors and the points that `draw_points` draws for them, except those of the same particle."""
    cloud_of = torch.bucketize(torch.arange(60), offsets[1:], right=True)
    begin, size = offsets[cloud_of], offsets.diff()[cloud_of]
    out = torch.empty(60, CHUNK, dtype=torch.int64)
    write_draws[60,](out, seed, begin, size, T=CHUNK)
    counts = (0.5 * cloud.negatives.ptr.diff() + 0.5).floor().long()
    return torch.tensor(
        [
            (u, int(v))
            for u in range(60)
            for v in out[u, : int(counts[u])]
            if cloud.particle[u] != cloud.particle[v]
        ]
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps(globals()[sys.argv[1]]()))
