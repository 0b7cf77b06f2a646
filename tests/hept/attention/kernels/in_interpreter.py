"""Triton kernels on a CPU, in Triton's interpreter: `python in_interpreter.py NAME` prints figures as JSON.

It runs in its own process, since Triton chooses its interpreter when it is imported.
"""

import json
import mmap
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
from test_native import as_double, draw, run

from benchmarks.counted_gathers import count_gathers
from hept.attention.clouds import Clouds
from hept.attention.definition import Blocks, HashTables
from hept.attention.kernels import triton_blocks
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.plain import EPSILON, attend_plain
from hept.attention.kernels.triton import attend_triton, compute_backward, compute_forward, prepare
from hept.attention.kernels.triton_launch import BACKWARD_KEY, BACKWARD_QUERY, FORWARD, Sizes
from hept.attention.kernels.triton_sort import order_both
from hept.attention.kernels.triton_traffic import count_backward, count_forward

# MAP_NORESERVE of Linux, which Python defines from 3.12 on.
NO_RESERVE = 0x4000
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
        # Keys of each block are the queries of the next one.
        clouds = layout.query_order.split(shape["sizes"], -1)
        key_order = torch.cat([cloud.roll(-shape["block"], -1) for cloud in clouds], -1)
        blocks = layout.blocks
        layout = Layout(layout.query_order.int(), key_order.int(), blocks)
        orders = layout.query_order, layout.key_order
        inputs = *tensors_of(rows), *orders, blocks.position, blocks.is_filled, blocks.slot
        heads, n, values = rows.value.shape
        out, total = rows.value.new_empty(n, heads, values).movedim(1, 0), rows.value.new_empty(heads, n)
        with count_gathers(parts=Sizes.of(rows, layout).count_parts(FORWARD)) as forward:
            compute_forward(rows, layout, out, total)
        into = Operands(
            *(torch.empty_like(each) if each is not None else None for each in tensors_of(rows)[:4])
        )
        with count_gathers(parts=Sizes.of(rows, layout).count_parts(FORWARD)) as backward:
            compute_backward(rows, layout, torch.ones_like(out), out, total, into)
        # The copies that make coordinates contiguous are made by torch, not by a kernel.
        of_copies = 2 * 4 * rows.coords.numel() if rows.coords is not None else 0
        found[name] = {
            "forward": [count_forward(*inputs).n_bytes - of_copies, forward.n_bytes],
            "backward": [
                count_backward(out, out, total, *inputs).n_bytes - 2 * of_copies,
                backward.n_bytes,
            ],
        }
    return found


def tensors_of(rows):
    return rows.query, rows.key, rows.value, rows.coords


def large():
    """Operands at offsets beyond 2³¹ give the same results as the same points alone."""
    n, heads, dim, values, coords, size = 2**26, 2, 33, 34, 2, 20
    rows, layout = draw([size], dim=dim, values=values, coords=coords, heads=heads, tables=1, block=size)
    blocks = layout.blocks
    inputs = [rows.query, rows.key, rows.value, rows.coords.mT.contiguous()]
    d_sums, d_total = torch.randn_like(rows.value), torch.randn(heads, size)
    orders = [order.int() for order in (layout.query_order, layout.key_order)]
    results = []
    for n_points in (size, n):
        at = slice(n_points - size, n_points)

        def place_at_end(small, axis=1, n_points=n_points, at=at):
            shape = list(small.shape)
            shape[axis] = n_points
            tensor = map_memory(shape, small.dtype)
            tensor[(slice(None),) * axis + (at,)] = small
            return tensor

        far_orders = [place_at_end(order + n_points - size, 2) for order in orders]
        far = [place_at_end(each) for each in inputs], *far_orders, blocks.position + n_points - size
        far_rows = Operands(*far[0][:3], far[0][3].mT)
        far_layout = Layout(*far_orders, Blocks(far[3], blocks.is_filled, blocks.slot))
        assert Sizes.of(far_rows, far_layout).needs_64_bits(n_points) == (n_points == n)
        given = *far[0], *far_orders, far[3], blocks.is_filled
        grads = [place_at_end(each) for each in (d_sums, d_total)]
        out, total = map_memory((n_points, heads, values)), map_memory((heads, n_points))
        into = [map_memory((heads, n_points, width)) for width in (dim, dim, values, coords)]
        prepare(triton_blocks.attend, FORWARD, far_rows, far_layout)(
            *given, out, total, 0, 1, n_points, EPSILON
        )
        by_query = prepare(triton_blocks.backward_query, BACKWARD_QUERY, far_rows, far_layout)
        by_query(*given, *grads, into[0], into[3], 0, n_points)
        by_key = prepare(triton_blocks.backward_key, BACKWARD_KEY, far_rows, far_layout)
        by_key(*given, *grads, into[1], into[2], into[3], 0, n_points)
        results.append([out[at].clone(), total[:, at].clone(), *(each[:, at].clone() for each in into)])
    is_moved = [bool((a != 0).any()) for a in results[0]]
    return {"moved": is_moved, "same": [torch.equal(a, b) for a, b in zip(*results, strict=True)]}


def map_memory(shape, dtype=torch.float32):
    """Zeros in lazily committed memory: untouched pages take none."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    return torch.frombuffer(memory, dtype=dtype).view(*shape)


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
