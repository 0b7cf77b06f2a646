"""Triton kernels on a CPU, in Triton's interpreter: `python in_interpreter.py NAME` prints figures as JSON.

It runs in its own process, since Triton chooses its interpreter when it is imported.
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch
from test_native import as_double, draw, run

from benchmarks.counted_gathers import count_gathers
from benchmarks.memory import map_memory
from benchmarks.traffic import count_attention, count_attention_backward
from hept.attention.clouds import Clouds
from hept.attention.definition import Blocks, HashTables
from hept.attention.kernels import triton_backward, triton_blocks
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.plain import EPSILON, attend_plain
from hept.attention.kernels.triton import (
    arrange,
    attend_triton,
    compute_backward,
    compute_forward,
    prepare,
)
from hept.attention.kernels.triton_launch import BACKWARD, FORWARD, Sizes
from hept.attention.kernels.triton_sort import order_both

NAMES = "out", "query", "key", "value", "coords"
SHAPES = {
    "ragged, one cloud empty, one of one point": {"sizes": [30, 0, 1, 20], "block": 7},
    "a block in several parts": {"sizes": [140], "block": 70, "heads": 1, "tables": 2},
    "blocks of one point": {"sizes": [5, 2], "block": 1},
    "no coords": {"sizes": [40], "block": 20, "coords": 0},
    "heads that are no powers of two": {"sizes": [40], "dim": 24, "values": 33, "coords": 6, "block": 20},
    "narrow heads": {"sizes": [20], "dim": 1, "values": 1, "coords": 1, "block": 20, "heads": 3},
    "one table": {"sizes": [33], "tables": 1},
}


def errors(rows, layout):
    """Relative error of output and gradients against `attend_plain` in float64."""
    found, exact = run(attend_triton, rows, layout), run(attend_plain, as_double(rows), layout)
    assert all(each.dtype == torch.float32 for each in found)
    pairs = zip(NAMES, found, exact, strict=False)
    return {name: float((a - b).norm() / b.norm()) for name, a, b in pairs}


def shapes():
    return {name: errors(*draw(**shape)) for name, shape in SHAPES.items()}


def extremes():
    """Coordinates near 20,000, some thousandths apart; one point far from all others; NaN."""
    rows, layout = draw([60], block=30, coords=2, heads=1, tables=2)
    rows.coords.div_(8).add_(20_000)
    found = {"far from 0": errors(rows, layout)}
    rows, layout = draw([60], block=30, heads=1, tables=2)
    rows.coords[:, :, 7] = 1e15
    found["one outlier"] = errors(rows, layout)
    rows, layout = draw([40, 30], block=20, heads=1, tables=1)
    before = run(attend_triton, rows, layout)
    rows.query[:, 3], rows.key[:, 9] = torch.nan, torch.nan
    out, *grads = run(attend_triton, rows, layout)
    others = [a[:, 40:] if a.shape[1] == 70 else a[..., 40:] for a in (out, *grads)]
    same = [a[:, 40:] if a.shape[1] == 70 else a[..., 40:] for a in before]
    equal = all(torch.equal(a, b) for a, b in zip(others, same, strict=True))
    found["query that is not a number is seen"] = bool(out[:, 3].isnan().all())
    return found | {"other cloud is untouched": equal}


def traffic():
    """Bytes by formula and as counted, if no block contains both the query and the key of a point."""
    found = {}
    for name, shape in {
        "one part": {"sizes": [48], "block": 12},
        "several parts": {
            "sizes": [140],
            "block": 70,
            "dim": 5,
            "values": 4,
            "coords": 3,
            "heads": 1,
            "tables": 2,
        },
        "ragged": {"sizes": [24, 36], "block": 12, "coords": 0},
    }.items():
        rows, layout = draw(**shape)
        rows = arrange(rows)
        # Keys of each block are the queries of the next one.
        clouds = layout.query_order.split(shape["sizes"], -1)
        key_order = torch.cat([cloud.roll(-shape["block"], -1) for cloud in clouds], -1)
        blocks = layout.blocks
        layout = Layout(layout.query_order, key_order, blocks)
        orders = layout.query_order, layout.key_order
        inputs = *tensors_of(rows), *orders, blocks.position, blocks.is_filled, blocks.slot
        heads, n, values = rows.value.shape
        out, total = rows.value.new_empty(n, heads, values).movedim(1, 0), rows.value.new_empty(heads, n)
        with count_gathers(parts=Sizes.of(rows, layout).count_parts(FORWARD)) as forward:
            compute_forward(rows, layout, out, total)
        into = Operands(
            *(torch.empty_like(each) if each is not None else None for each in tensors_of(rows)[:4])
        )
        with count_gathers(parts=Sizes.of(rows, layout).count_parts(BACKWARD)) as backward:
            compute_backward(rows, layout, torch.ones_like(out), out, total, into)
        # Torch adds the two gradients of coordinates.
        others = 3 * 4 * rows.coords.numel() if rows.coords is not None else 0
        # Programs of empty blocks end before they read a position.
        others += 8 * heads * layout.n_tables * int((~blocks.is_filled).all(1).sum())
        found[name] = {
            "forward": [count_attention(*inputs).n_bytes, forward.n_bytes],
            "backward": [
                count_attention_backward(out, out, total, *inputs).n_bytes - others,
                backward.n_bytes,
            ],
        }
    return found


def tensors_of(rows):
    return rows.query, rows.key, rows.value, rows.coords


def large():
    """Operands at offsets beyond 2³¹ give the same results as the same points alone."""
    n, heads, dim, values, coords, size = 2**25, 2, 33, 34, 2, 20
    rows, layout = draw([size], dim=dim, values=values, coords=coords, heads=heads, tables=1, block=size)
    blocks = layout.blocks
    arranged = arrange(rows)
    given = [each.movedim(0, 1) for each in (arranged.query, arranged.key, arranged.value)]
    inputs = [*given, arranged.coords.movedim(2, 0)]
    grad, z, d_total = torch.randn(size, heads, values), torch.rand(heads, size) + 1, torch.randn(heads, size)
    results = []
    for n_points in (size, n):
        at = slice(n_points - size, n_points)

        def place_at_end(small, axis=0, n_points=n_points, at=at):
            shape = list(small.shape)
            shape[axis] = n_points
            tensor = map_memory(shape, small.dtype)
            tensor[(slice(None),) * axis + (at,)] = small
            return tensor

        orders = [place_at_end(each + n_points - size, 2) for each in (layout.query_order, layout.key_order)]
        far = [place_at_end(each) for each in inputs]
        position = blocks.position + n_points - size
        far_rows = Operands(*(each.movedim(1, 0) for each in far[:3]), far[3].movedim(0, 2))
        far_layout = Layout(*orders, Blocks(position, blocks.is_filled, blocks.slot))
        assert Sizes.of(far_rows, far_layout).needs_64_bits(n_points) == (n_points == n)
        arguments = *far, *orders, position, blocks.is_filled
        at_output = place_at_end(grad), place_at_end(z, 1), place_at_end(d_total, 1)
        out, total = map_memory((n_points, heads, values)), map_memory((heads, n_points))
        into = [map_memory((n_points, heads, width)) for width in (dim, dim, values)]
        d_coords = map_memory((2, n_points, heads, coords))
        prepare(triton_blocks.attend, FORWARD, far_rows, far_layout)(
            *arguments, out, total, 0, 1, n_points, EPSILON
        )
        run_backward = prepare(triton_backward.backward, BACKWARD, far_rows, far_layout)
        run_backward(*arguments, *at_output, *into, d_coords, 0, n_points)
        by_point = [each[at].clone() for each in (out, *into)]
        results.append([*by_point, total[:, at].clone(), d_coords[:, at].clone()])
    is_moved = [bool((a != 0).any()) for a in results[0]]
    return {"moved": is_moved, "same": [torch.equal(a, b) for a, b in zip(*results, strict=True)]}


def many_blocks():
    """66,000 blocks, of which only the last two are filled."""
    rows, layout = draw([20], block=10, heads=1, tables=1)
    n_empty = 66_000
    first = layout.blocks
    blocks = Blocks(
        torch.cat([first.position.new_zeros(n_empty, 10), first.position]),
        torch.cat([first.is_filled.new_zeros(n_empty, 10), first.is_filled]),
        first.slot + 10 * n_empty,
    )
    # The backward pass indexes its blocks in the same way.
    expected = attend_triton(rows, layout)
    found = attend_triton(rows, Layout(layout.query_order, layout.key_order, blocks))
    return {"same": [torch.equal(found, expected)]}


def orders():
    """Orders from the fused kernel's keys against the step-by-step orders of the tables."""
    found = {}
    for name, (sizes, periods) in {
        "one cloud": ([600], {}),
        "ragged, one empty": ([300, 0, 1, 40], {}),
        "angle": ([300], {1: 6.28}),
        "angle, ragged": ([100, 0, 150], {1: 6.28}),
    }.items():
        torch.manual_seed(len(name))
        settings = {"n_heads": 2, "n_tables": 3, "n_regions": 17.5, "and_coords": (0, 1), "n_hidden_codes": 0}
        tables = HashTables(6, **settings, periods=periods)
        n = sum(sizes)
        clouds = Clouds.from_offsets(torch.tensor([0, *sizes]).cumsum(0), n)
        query, key, coords = torch.randn(2, n, 6), torch.randn(2, n, 6), torch.randn(n, 2)
        ranks = tables.rank_coords(coords, clouds)
        expected = tables(query, key, ranks, clouds)
        hashes = ((tables.alpha.mT @ z.mT).contiguous() for z in (query, key))
        rank = torch.stack([each.rank for each in ranks])
        shift = tables._shifts(ranks, clouds)
        fused = order_both(*hashes, rank, shift, tables.regions, clouds.index, clouds.sizes)
        found[name] = [torch.equal(a, b) for a, b in zip(fused, expected, strict=True)]
    return found


def published():
    """1,000 points at the published sizes."""
    rows, layout = draw([600, 400], dim=24, values=24, coords=8, heads=8, tables=3, block=100, scale=0.5)
    return {
        "1,000 points": errors(Operands(0.3 * rows.query, 0.3 * rows.key, rows.value, rows.coords), layout)
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps(globals()[sys.argv[1]]()))
