"""Block attention as a Triton kernel: rows of points and their order enter, sums leave.

    w_ij  = exp(−½‖q_i − k_j‖² − ½‖c_i − c_j‖²)          of query i and key j in one block
    out_i = Σ w_ij v_j / z_i,   z_i = Σ w_ij + C·ε        over the keys j of its block in each of C tables

A program owns some rows of one block of one head (queries or keys) and loops over the other side of the block
(keys or queries) in chunks. Kernel values stay in registers; nothing of size S×S is in memory. The kernel
gathers rows by the order of the table. The gradients are in `triton_backward`.

Each launch handles one table and adds to the results of the previous launch. Every point is in exactly one
block of a table, so each row has one owner: no sum needs an atomic operation, and results do not depend on
the order of execution.

Coordinates c are subtracted column by column in float32, so nothing cancels, even far from 0. Features are
normalised before the projection, so ‖q−k‖² may be expanded: the error is about 10⁻⁶ of ‖q‖². `PRECISION` sets
the precision of products (tf32x3: three products on tensor cores, nearly float32).

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P coordinates, K blocks, S slots;
    R rows that a program owns, T rows of a chunk; MP, VP: M, V padded to a power of two.
Memory layout: queries, keys (N, H, M); values, outputs (N, H, V); coordinates (N, H, P); orders (C, H, N).
"""

import triton
import triton.language as tl

# Not specialised: Triton would compile further kernels for 1 and for multiples of 16.
COUNTS = ["table", "n_tables", "n_points"]


@triton.jit
def find_points(order, position, is_filled, block, slot, S: tl.constexpr, WIDE: tl.constexpr):
    """The point in each of these slots of a block, and whether the slot is filled."""
    first_slot = block.to(tl.int64) * S
    is_there = tl.load(is_filled + first_slot + slot, slot < S, other=0) != 0
    # The positions of a block are consecutive.
    begin = tl.load(position + first_slot)
    point = tl.load(order + begin + slot, is_there, other=0)
    # 64-bit offsets cost registers; most clouds do not need them.
    return point.to(tl.int64 if WIDE else tl.int32), is_there


@triton.jit
def load_rows(base, point, is_there, stride, D: tl.constexpr, DP: tl.constexpr):
    """Load the points' rows (rows, DP), with zeros for empty slots and beyond the D columns."""
    d = tl.arange(0, DP)
    at = (base + point * stride)[:, None] + d[None, :]
    return tl.load(at, is_there[:, None] & (d < D)[None, :], other=0.0)


@triton.jit
def weigh(
    mine, others, half, coords, my_point, point, my_is_there, is_there,
    H: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Kernel values (R, T) of the own rows and a chunk; 0 where either slot is empty."""
    logit = tl.dot(mine, tl.trans(others), input_precision=PRECISION)
    logit = logit - half[:, None] - (0.5 * tl.sum(others * others, 1))[None, :]
    square = tl.zeros_like(logit)
    # Unrolled completely, the loop would need more registers than there are.
    for p in tl.range(0, P, num_stages=1, loop_unroll_factor=UNROLL):
        difference = subtract_coords(coords + p, my_point, point, my_is_there, is_there, H * P, "")
        square += difference * difference
    logit -= 0.5 * square
    # Rounding may give a logit slightly above 0. `tl.where` propagates NaN, unlike `tl.minimum`.
    weight = tl.exp(tl.where(logit > 0.0, 0.0, logit))
    return tl.where(my_is_there[:, None] & is_there[None, :], weight, 0.0)


@triton.jit
def subtract_coords(column, my_point, point, my_is_there, is_there, stride, POLICY: tl.constexpr):
    """(R, T) one coordinate of the chunk's points minus that of the own points.

    It is loaded from the L1 cache at each use, since registers are scarcer. Different eviction policies keep
    the compiler from merging two loads, which would hold the value in registers in between.
    """
    mine = tl.load(column + my_point * stride, my_is_there, other=0.0, eviction_policy=POLICY)
    others = tl.load(column + point * stride, is_there, other=0.0, eviction_policy=POLICY)
    return others[None, :] - mine[:, None]


@triton.jit(do_not_specialize=COUNTS)
def attend(
    query, key, value, coords, query_order, key_order, position, is_filled, out, total,
    table, n_tables, n_points, epsilon,
    H: tl.constexpr, M: tl.constexpr, V: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
    R: tl.constexpr, T: tl.constexpr, MP: tl.constexpr, VP: tl.constexpr,
    WIDE: tl.constexpr, PRECISION: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Add the sums of a table to out (N, H, V) and total (H, N); the last table divides one by the other."""
    parts: tl.constexpr = (S + R - 1) // R
    # Blocks are on the first axis of the grid, the only one that may exceed 65,535.
    block, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    head = tl.program_id(1).to(tl.int64)
    # 64 bits: all heads and tables together may hold more than 2³¹ numbers.
    first = head * n_points
    in_table = (table.to(tl.int64) * H + head) * n_points
    my_slot = part * R + tl.arange(0, R)
    my_point, my_is_there = find_points(query_order + in_table, position, is_filled, block, my_slot, S, WIDE)
    if tl.max(my_is_there.to(tl.int32), 0) == 0:
        return
    q = load_rows(query + head * M, my_point, my_is_there, H * M, M, MP)
    half = 0.5 * tl.sum(q * q, 1)
    sums = tl.zeros((R, VP), tl.float32)
    z = tl.zeros((R,), tl.float32)
    for begin in range(0, S, T):
        slot = begin + tl.arange(0, T)
        point, is_there = find_points(key_order + in_table, position, is_filled, block, slot, S, WIDE)
        k = load_rows(key + head * M, point, is_there, H * M, M, MP)
        w = weigh(
            q, k, half, coords + head * P, my_point, point, my_is_there, is_there, H, P, PRECISION, UNROLL
        )
        v = load_rows(value + head * V, point, is_there, H * V, V, VP)
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
