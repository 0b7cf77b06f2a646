"""Gradients of block attention as Triton kernels: the gradient of the outputs enters, those of rows leave.

With g = dL/dout / z and dL/dz = −g·out, the gradient of a logit is f_ij = w_ij (g_i·v_j + dL/dz_i), and

    dq_i = Σ_j f_ij (k_j − q_i)     dk_j = Σ_i f_ij (q_i − k_j)     dv_j = Σ_i w_ij g_i

and the gradients of coordinates are like those of queries and keys. Half of the programs of a block own
queries and the other half keys. They run at the same time, so that the second half finds the rows of the
block in the cache.

See `triton_blocks` for the forward pass, axes and memory layout; PP: P padded to a power of two.
"""

import triton
import triton.language as tl

from hept.attention.kernels.triton_blocks import COUNTS, find_points, load_rows, subtract_coords, weigh


@triton.jit
def add_rows(base, point, is_there, stride, rows, is_first, D: tl.constexpr, DP: tl.constexpr):
    """Add to the points' rows; the first launch overwrites them, since the memory is uninitialised."""
    d = tl.arange(0, DP)
    at = (base + point * stride)[:, None] + d[None, :]
    mask = is_there[:, None] & (d < D)[None, :]
    if is_first == 0:
        rows += tl.load(at, mask, other=0.0)
    tl.store(at, rows, mask)


@triton.jit(do_not_specialize=["n_points"])
def start_backward(
    grad, out, total, d_total, n_points,
    H: tl.constexpr, V: tl.constexpr, R: tl.constexpr, VP: tl.constexpr,
):  # fmt: skip
    """dL/dz = −dL/dout·out/z (H, N), from dL/dout and out (N, H, V) and z (H, N)."""
    head = tl.program_id(1).to(tl.int64)
    point = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    is_there = point < n_points
    z = tl.load(total + head * n_points + point, is_there, other=1.0)
    g = load_rows(grad + head * V, point, is_there, H * V, V, VP)
    o = load_rows(out + head * V, point, is_there, H * V, V, VP)
    tl.store(d_total + head * n_points + point, -tl.sum(g * o, 1) / z, is_there)


@triton.jit
def load_gradient(
    grad, total, d_total, point, is_there, head, n_points, H: tl.constexpr, V: tl.constexpr, VP: tl.constexpr
):
    """dL/d(Σ w v) = dL/dout / z (rows, VP), and dL/dz (rows,)."""
    at = head * n_points + point
    z = tl.load(total + at, is_there, other=1.0)
    g = load_rows(grad + head * V, point, is_there, H * V, V, VP)
    return g / z[:, None], tl.load(d_total + at, is_there, other=0.0)


@triton.jit
def add_coords_gradient(
    acc, force, coords, my_point, point, my_is_there, is_there,
    H: tl.constexpr, P: tl.constexpr, PP: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Add Σ_j force_ij (c_j − c_i) to (R, PP)."""
    column = tl.arange(0, PP)
    for p in tl.range(0, P, num_stages=1, loop_unroll_factor=UNROLL):
        difference = subtract_coords(coords + p, my_point, point, my_is_there, is_there, H * P, "evict_last")
        pull = tl.sum(force * difference, 1)
        acc += tl.where(column[None, :] == p, pull[:, None], 0.0)
    return acc


@triton.jit(do_not_specialize=COUNTS)
def backward(
    query, key, value, coords, query_order, key_order, position, is_filled, grad, total, d_total,
    d_query, d_key, d_value, d_coords, table, n_points,
    H: tl.constexpr, M: tl.constexpr, V: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
    R: tl.constexpr, T: tl.constexpr, MP: tl.constexpr, VP: tl.constexpr, PP: tl.constexpr,
    WIDE: tl.constexpr, PRECISION: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Add a table's part of all gradients; those of coordinates are (2, N, H, P), of queries and of keys."""
    parts: tl.constexpr = (S + R - 1) // R
    block, part = tl.program_id(0) // (2 * parts), tl.program_id(0) % (2 * parts)
    head = tl.program_id(1).to(tl.int64)
    in_table = (table.to(tl.int64) * H + head) * n_points
    my_slot = (part % parts) * R + tl.arange(0, R)
    is_mine = tl.load(is_filled + block.to(tl.int64) * S + my_slot, my_slot < S, other=0) != 0
    if tl.max(is_mine.to(tl.int32), 0) == 0:
        return
    coords += head * P
    d_coords += head * P
    if part < parts:
        add_to_queries(
            query, key, value, coords, query_order + in_table, key_order + in_table, position, is_filled,
            grad, total, d_total, d_query, d_coords, table, n_points, block, head, my_slot,
            H, M, V, P, S, R, T, MP, VP, PP, WIDE, PRECISION, UNROLL,
        )  # fmt: skip
    else:
        add_to_keys(
            query, key, value, coords, query_order + in_table, key_order + in_table, position, is_filled,
            grad, total, d_total, d_key, d_value, d_coords + n_points.to(tl.int64) * H * P,
            table, n_points, block, head, my_slot, H, M, V, P, S, R, T, MP, VP, PP, WIDE, PRECISION, UNROLL,
        )  # fmt: skip


@triton.jit
def add_to_queries(
    query, key, value, coords, query_order, key_order, position, is_filled,
    grad, total, d_total, d_query, d_coords, table, n_points, block, head, my_slot,
    H: tl.constexpr, M: tl.constexpr, V: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
    R: tl.constexpr, T: tl.constexpr, MP: tl.constexpr, VP: tl.constexpr, PP: tl.constexpr,
    WIDE: tl.constexpr, PRECISION: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Add to the gradients of the own queries and their coordinates; a chunk has keys."""
    my_point, my_is_there = find_points(query_order, position, is_filled, block, my_slot, S, WIDE)
    q = load_rows(query + head * M, my_point, my_is_there, H * M, M, MP)
    half = 0.5 * tl.sum(q * q, 1)
    g, dz = load_gradient(grad, total, d_total, my_point, my_is_there, head, n_points, H, V, VP)
    dq = tl.zeros((R, MP), tl.float32)
    dc = tl.zeros((R, PP), tl.float32)
    all_forces = tl.zeros((R,), tl.float32)
    for begin in range(0, S, T):
        slot = begin + tl.arange(0, T)
        point, is_there = find_points(key_order, position, is_filled, block, slot, S, WIDE)
        k = load_rows(key + head * M, point, is_there, H * M, M, MP)
        w = weigh(q, k, half, coords, my_point, point, my_is_there, is_there, H, P, PRECISION, UNROLL)
        v = load_rows(value + head * V, point, is_there, H * V, V, VP)
        force = w * (tl.dot(g, tl.trans(v), input_precision=PRECISION) + dz[:, None])
        all_forces += tl.sum(force, 1)
        dq = tl.dot(force, k, dq, input_precision=PRECISION)
        dc = add_coords_gradient(dc, force, coords, my_point, point, my_is_there, is_there, H, P, PP, UNROLL)
    dq -= all_forces[:, None] * q
    add_rows(d_query + head * M, my_point, my_is_there, H * M, dq, table == 0, M, MP)
    if P > 0:
        add_rows(d_coords, my_point, my_is_there, H * P, dc, table == 0, P, PP)


@triton.jit
def add_to_keys(
    query, key, value, coords, query_order, key_order, position, is_filled,
    grad, total, d_total, d_key, d_value, d_coords, table, n_points, block, head, my_slot,
    H: tl.constexpr, M: tl.constexpr, V: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
    R: tl.constexpr, T: tl.constexpr, MP: tl.constexpr, VP: tl.constexpr, PP: tl.constexpr,
    WIDE: tl.constexpr, PRECISION: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Add to the gradients of the own keys, values and their coordinates; a chunk has queries."""
    my_point, my_is_there = find_points(key_order, position, is_filled, block, my_slot, S, WIDE)
    k = load_rows(key + head * M, my_point, my_is_there, H * M, M, MP)
    half = 0.5 * tl.sum(k * k, 1)
    v = load_rows(value + head * V, my_point, my_is_there, H * V, V, VP)
    dk = tl.zeros((R, MP), tl.float32)
    dv = tl.zeros((R, VP), tl.float32)
    dc = tl.zeros((R, PP), tl.float32)
    all_forces = tl.zeros((R,), tl.float32)
    for begin in range(0, S, T):
        slot = begin + tl.arange(0, T)
        point, is_there = find_points(query_order, position, is_filled, block, slot, S, WIDE)
        q = load_rows(query + head * M, point, is_there, H * M, M, MP)
        w = weigh(k, q, half, coords, my_point, point, my_is_there, is_there, H, P, PRECISION, UNROLL)
        g, dz = load_gradient(grad, total, d_total, point, is_there, head, n_points, H, V, VP)
        force = w * (tl.dot(v, tl.trans(g), input_precision=PRECISION) + dz[None, :])
        all_forces += tl.sum(force, 1)
        dc = add_coords_gradient(dc, force, coords, my_point, point, my_is_there, is_there, H, P, PP, UNROLL)
        dk = tl.dot(force, q, dk, input_precision=PRECISION)
        dv = tl.dot(w, g, dv, input_precision=PRECISION)
    dk -= all_forces[:, None] * k
    add_rows(d_key + head * M, my_point, my_is_there, H * M, dk, table == 0, M, MP)
    add_rows(d_value + head * V, my_point, my_is_there, H * V, dv, table == 0, V, VP)
    if P > 0:
        add_rows(d_coords, my_point, my_is_there, H * P, dc, table == 0, P, PP)
