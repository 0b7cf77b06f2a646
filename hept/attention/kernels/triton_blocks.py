"""Block attention as Triton kernels: rows of points and their order enter, sums and gradients leave.

    w_ij  = exp(−½‖q_i − k_j‖² − ½‖c_i − c_j‖²)          of query i and key j in one block
    out_i = Σ w_ij v_j / z_i,   z_i = Σ w_ij + C·ε        over the keys j of its block in each of C tables

A program owns some rows of one block of one head (queries or keys) and loops over the other side of the block
(keys or queries) in chunks. Kernel values stay in registers; nothing of size S×S is in memory. The kernel
gathers rows by the order of the table.

Each launch handles one table and adds to the results of the previous launch. Every point is in exactly one
block of a table, so each row has one owner: no sum needs an atomic operation, and results do not depend on
the order of execution.

Coordinates c are subtracted column by column in float32, so nothing cancels, even far from 0. Features are
normalised before the projection, so ‖q−k‖² may be expanded: the error is about 10⁻⁶ of ‖q‖². `PRECISION` sets
the precision of products (tf32x3: three products on tensor cores, nearly float32).

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P coordinates, K blocks, S slots;
    R rows that a program owns, T rows of a chunk; MP, VP, PP: M, V, P padded to a power of two.
Memory layout: queries, keys (H, N, M); values (H, N, V); coordinates (H, N, P); orders (C, H, N).
"""

import triton
import triton.language as tl

# Not specialised: Triton would compile further kernels for 1 and for multiples of 16.
COUNTS = ["table", "n_tables", "n_points"]


@triton.jit
def find_points(order, position, is_filled, block, slot, S: tl.constexpr, WIDE: tl.constexpr):
    """The point in each of these slots of a block, and whether the slot is filled."""
    at_slot = block.to(tl.int64) * S + slot
    is_there = tl.load(is_filled + at_slot, slot < S, other=0) != 0
    at = tl.load(position + at_slot, is_there, other=0)
    point = tl.load(order + at, is_there, other=0)
    # 64-bit offsets cost registers; most clouds do not need them within a head.
    return (point.to(tl.int64) if WIDE else point), is_there


@triton.jit
def load_rows(base, point, is_there, stride, D: tl.constexpr, DP: tl.constexpr):
    """Load the points' rows (rows, DP), with zeros for empty slots and beyond the D columns."""
    d = tl.arange(0, DP)
    at = (base + point * stride)[:, None] + d[None, :]
    return tl.load(at, is_there[:, None] & (d < D)[None, :], other=0.0)


@triton.jit
def add_rows(base, point, is_there, stride, rows, is_first, D: tl.constexpr, DP: tl.constexpr):
    """Add to the points' rows; the first launch overwrites them, since the memory is uninitialised."""
    d = tl.arange(0, DP)
    at = (base + point * stride)[:, None] + d[None, :]
    mask = is_there[:, None] & (d < D)[None, :]
    if is_first == 0:
        rows += tl.load(at, mask, other=0.0)
    tl.store(at, rows, mask)


@triton.jit
def weigh(
    mine, others, half, coords, my_point, point, my_is_there, is_there,
    P: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Kernel values (R, T) of the own rows and a chunk; 0 where either slot is empty."""
    logit = tl.dot(mine, tl.trans(others), input_precision=PRECISION)
    logit = logit - half[:, None] - (0.5 * tl.sum(others * others, 1))[None, :]
    square = tl.zeros_like(logit)
    for p in tl.static_range(P):
        difference = subtract_coords(coords + p, my_point, point, my_is_there, is_there, P, "")
        square += difference * difference
    logit -= 0.5 * square
    # Rounding may give a logit slightly above 0. `tl.where` propagates NaN, unlike `tl.minimum`.
    weight = tl.exp(tl.where(logit > 0.0, 0.0, logit))
    return tl.where(my_is_there[:, None] & is_there[None, :], weight, 0.0)


@triton.jit
def subtract_coords(column, my_point, point, my_is_there, is_there, P: tl.constexpr, POLICY: tl.constexpr):
    """(R, T) one coordinate of the chunk's points minus that of the own points.

    It is loaded from the L1 cache at each use, since registers are scarcer. Different eviction policies keep
    the compiler from merging two loads, which would hold the value in registers in between.
    """
    mine = tl.load(column + my_point * P, my_is_there, other=0.0, eviction_policy=POLICY)
    others = tl.load(column + point * P, is_there, other=0.0, eviction_policy=POLICY)
    return others[None, :] - mine[:, None]


@triton.jit(do_not_specialize=COUNTS)
def attend(
    query, key, value, coords, query_order, key_order, position, is_filled, out, total,
    table, n_tables, n_points, epsilon,
    H: tl.constexpr, M: tl.constexpr, V: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
    R: tl.constexpr, T: tl.constexpr, MP: tl.constexpr, VP: tl.constexpr,
    WIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add the sums of a table to out (N, H, V) and total (H, N); the last table divides one by the other."""
    parts: tl.constexpr = (S + R - 1) // R
    # Blocks are on the first axis of the grid, the only one that may exceed 65,535.
    block, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    head = tl.program_id(1).to(tl.int64)
    # 64 bits: the rows of all heads and tables may hold more than 2³¹ numbers.
    first = head * n_points
    in_table = (table.to(tl.int64) * H + head) * n_points
    my_slot = part * R + tl.arange(0, R)
    my_point, my_is_there = find_points(query_order + in_table, position, is_filled, block, my_slot, S, WIDE)
    if tl.max(my_is_there.to(tl.int32), 0) == 0:
        return
    q = load_rows(query + first * M, my_point, my_is_there, M, M, MP)
    half = 0.5 * tl.sum(q * q, 1)
    sums = tl.zeros((R, VP), tl.float32)
    z = tl.zeros((R,), tl.float32)
    for begin in range(0, S, T):
        slot = begin + tl.arange(0, T)
        point, is_there = find_points(key_order + in_table, position, is_filled, block, slot, S, WIDE)
        k = load_rows(key + first * M, point, is_there, M, M, MP)
        w = weigh(q, k, half, coords + first * P, my_point, point, my_is_there, is_there, P, PRECISION)
        v = load_rows(value + first * V, point, is_there, V, V, VP)
        sums = tl.dot(w, v, sums, input_precision=PRECISION)
        z += tl.sum(w, 1)

    d = tl.arange(0, VP)
    at = (out + my_point * (H * V) + head * V)[:, None] + d[None, :]
    mask = my_is_there[:, None] & (d < V)[None, :]
    if table > 0:
        z += tl.load(total + first + my_point, my_is_there, other=0.0)
        sums += tl.load(at, mask, other=0.0)
    if table == n_tables - 1:
        z += n_tables * epsilon
        sums = sums / z[:, None]
    tl.store(total + first + my_point, z, my_is_there)
    tl.store(at, sums, mask)


@triton.jit(do_not_specialize=["n_points"])
def start_backward(
    grad, out, total, d_sums, d_total, n_points,
    H: tl.constexpr, V: tl.constexpr, R: tl.constexpr, VP: tl.constexpr,
):  # fmt: skip
    """dL/d(Σ w v) = g/z (H, N, V) and dL/dz = −g·out/z (H, N), from g and out (N, H, V) and z (H, N)."""
    head = tl.program_id(1).to(tl.int64)
    point = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    is_there = point < n_points
    at_head = head * V
    z = tl.load(total + head * n_points + point, is_there, other=1.0)
    g = load_rows(grad + at_head, point, is_there, H * V, V, VP) / z[:, None]
    o = load_rows(out + at_head, point, is_there, H * V, V, VP)
    add_rows(d_sums + head * n_points * V, point, is_there, V, g, 1, V, VP)
    tl.store(d_total + head * n_points + point, -tl.sum(g * o, 1), is_there)


@triton.jit
def add_coords_gradient(
    acc, force, coords, my_point, point, my_is_there, is_there, P: tl.constexpr, PP: tl.constexpr
):
    """Add Σ_j force_ij (c_j − c_i) to (R, PP)."""
    column = tl.arange(0, PP)
    for p in tl.static_range(P):
        difference = subtract_coords(coords + p, my_point, point, my_is_there, is_there, P, "evict_last")
        pull = tl.sum(force * difference, 1)
        acc += tl.where(column[None, :] == p, pull[:, None], 0.0)
    return acc


@triton.jit(do_not_specialize=COUNTS)
def backward_query(
    query, key, value, coords, query_order, key_order, position, is_filled,
    d_sums, d_total, d_query, d_coords, table, n_points,
    H: tl.constexpr, M: tl.constexpr, V: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
    R: tl.constexpr, T: tl.constexpr, MP: tl.constexpr, VP: tl.constexpr, PP: tl.constexpr,
    WIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add a table's part of the gradients of queries (H, N, M) and of the queries' coordinates (H, N, P).

    With f_ij = dL/dlogit_ij = w_ij (dL/dsums_i · v_j + dL/dz_i): dq_i = Σ_j f_ij (k_j − q_i), likewise for c.
    """
    parts: tl.constexpr = (S + R - 1) // R
    block, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    head = tl.program_id(1).to(tl.int64)
    first = head * n_points
    in_table = (table.to(tl.int64) * H + head) * n_points
    my_slot = part * R + tl.arange(0, R)
    my_point, my_is_there = find_points(query_order + in_table, position, is_filled, block, my_slot, S, WIDE)
    if tl.max(my_is_there.to(tl.int32), 0) == 0:
        return
    q = load_rows(query + first * M, my_point, my_is_there, M, M, MP)
    half = 0.5 * tl.sum(q * q, 1)
    g = load_rows(d_sums + first * V, my_point, my_is_there, V, V, VP)
    dz = tl.load(d_total + first + my_point, my_is_there, other=0.0)
    dq = tl.zeros((R, MP), tl.float32)
    dc = tl.zeros((R, PP), tl.float32)
    all_forces = tl.zeros((R,), tl.float32)
    for begin in range(0, S, T):
        slot = begin + tl.arange(0, T)
        point, is_there = find_points(key_order + in_table, position, is_filled, block, slot, S, WIDE)
        k = load_rows(key + first * M, point, is_there, M, M, MP)
        w = weigh(q, k, half, coords + first * P, my_point, point, my_is_there, is_there, P, PRECISION)
        v = load_rows(value + first * V, point, is_there, V, V, VP)
        force = w * (tl.dot(g, tl.trans(v), input_precision=PRECISION) + dz[:, None])
        all_forces += tl.sum(force, 1)
        dq = tl.dot(force, k, dq, input_precision=PRECISION)
        dc = add_coords_gradient(dc, force, coords + first * P, my_point, point, my_is_there, is_there, P, PP)
    add_rows(d_query + first * M, my_point, my_is_there, M, dq - all_forces[:, None] * q, table == 0, M, MP)
    if P > 0:
        add_rows(d_coords + first * P, my_point, my_is_there, P, dc, table == 0, P, PP)


@triton.jit(do_not_specialize=COUNTS)
def backward_key(
    query, key, value, coords, query_order, key_order, position, is_filled,
    d_sums, d_total, d_key, d_value, d_coords, table, n_points,
    H: tl.constexpr, M: tl.constexpr, V: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
    R: tl.constexpr, T: tl.constexpr, MP: tl.constexpr, VP: tl.constexpr, PP: tl.constexpr,
    WIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add a table's part of the gradients of keys, values and the keys' coordinates; after `backward_query`.

    The own rows are keys j, a chunk has queries i: dv_j = Σ_i w_ij dL/dsums_i, dk_j = Σ_i f_ij (q_i − k_j).
    """
    parts: tl.constexpr = (S + R - 1) // R
    block, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    head = tl.program_id(1).to(tl.int64)
    first = head * n_points
    in_table = (table.to(tl.int64) * H + head) * n_points
    my_slot = part * R + tl.arange(0, R)
    my_point, my_is_there = find_points(key_order + in_table, position, is_filled, block, my_slot, S, WIDE)
    if tl.max(my_is_there.to(tl.int32), 0) == 0:
        return
    k = load_rows(key + first * M, my_point, my_is_there, M, M, MP)
    half = 0.5 * tl.sum(k * k, 1)
    v = load_rows(value + first * V, my_point, my_is_there, V, V, VP)
    dk = tl.zeros((R, MP), tl.float32)
    dv = tl.zeros((R, VP), tl.float32)
    dc = tl.zeros((R, PP), tl.float32)
    all_forces = tl.zeros((R,), tl.float32)
    for begin in range(0, S, T):
        slot = begin + tl.arange(0, T)
        point, is_there = find_points(query_order + in_table, position, is_filled, block, slot, S, WIDE)
        q = load_rows(query + first * M, point, is_there, M, M, MP)
        w = weigh(k, q, half, coords + first * P, my_point, point, my_is_there, is_there, P, PRECISION)
        g = load_rows(d_sums + first * V, point, is_there, V, V, VP)
        dz = tl.load(d_total + first + point, is_there, other=0.0)
        force = w * (tl.dot(v, tl.trans(g), input_precision=PRECISION) + dz[None, :])
        all_forces += tl.sum(force, 1)
        dc = add_coords_gradient(dc, force, coords + first * P, my_point, point, my_is_there, is_there, P, PP)
        dk = tl.dot(force, q, dk, input_precision=PRECISION)
        dv = tl.dot(w, g, dv, input_precision=PRECISION)
    add_rows(d_key + first * M, my_point, my_is_there, M, dk - all_forces[:, None] * k, table == 0, M, MP)
    add_rows(d_value + first * V, my_point, my_is_there, V, dv, table == 0, V, VP)
    if P > 0:
        add_rows(d_coords + first * P, my_point, my_is_there, P, dc, 0, P, PP)
