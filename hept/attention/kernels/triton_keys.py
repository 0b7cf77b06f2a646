"""Sort keys of hash tables as a Triton kernel: ranks of coordinates and hash values enter, integers leave.

    key = (cloud, last code, …, first code, bits of the hash),   code = ⌊rank / ⌈n/B⌉⌋

as `hept.attention.definition` computes it step by step.

Axes: N points, B clouds, H heads, C tables, A codes, T points of a program.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n_points", "n_clouds"])
def make_keys(
    query_hash, key_hash, rank, shift, regions, cloud, sizes, keys, n_points, n_clouds,
    H: tl.constexpr, C: tl.constexpr, A: tl.constexpr, T: tl.constexpr, HAS_SHIFT: tl.constexpr,
):  # fmt: skip
    """Keys (2, C, H, N) of queries and of keys.

    Hashes are (H, C, N), ranks (A, N), shifts of ranks on a circle (A, C, H, B), regions (C, A, H).
    """
    # Points are on the first axis of the grid, the only one that may exceed 65,535.
    point = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    table, head = tl.program_id(1).to(tl.int64) // H, tl.program_id(1).to(tl.int64) % H
    is_there = point < n_points
    code = tl.load(cloud + point, is_there, other=0)
    my_cloud = code
    size = tl.load(sizes + my_cloud, is_there, other=1)
    for i in tl.static_range(A - 1, -1, -1):
        my_rank = tl.load(rank + i * n_points + point, is_there, other=0)
        if HAS_SHIFT:
            at = ((i * C + table) * H + head) * n_clouds + my_cloud
            my_rank = my_rank - tl.load(shift + at, is_there, other=0)
            my_rank = tl.where(my_rank < 0, my_rank + size, my_rank)
        n_buckets = tl.load(regions + (table * A + i) * H + head)
        # The same rounding as in torch: the published weights were trained with these sizes.
        per_bucket = tl.ceil(size.to(tl.float32) * tl.div_rn(1.0, n_buckets)).to(tl.int64)
        bucket = my_rank // tl.maximum(per_bucket, 1)
        code = code * (n_buckets.to(tl.int64) + 1) + bucket

    row = (head * C + table) * n_points + point
    out = (table * H + head) * n_points + point
    high = code << 32
    tl.store(keys + out, high + find_bits(query_hash + row, is_there), is_there)
    second = tl.cast(C, tl.int64) * H * n_points
    tl.store(keys + second + out, high + find_bits(key_hash + row, is_there), is_there)


@triton.jit
def find_bits(at, is_there):
    """Map float32 to integers of the same order: the bits, inverted for negative numbers, −0 as 0."""
    bits = tl.load(at, is_there, other=0.0).to(tl.int32, bitcast=True)
    sign = bits >> 31
    return ((bits ^ (sign & 0x7FFFFFFF)) - sign).to(tl.int64)
