"""Sort all hash tables on a GPU by one kernel and one sort: ranks and hashes enter, orders leave.

Axes: N points, B clouds, H heads, C tables, A codes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hept.devices.triton_support import launch_beside

# Points per program.
CHUNK = 512
# No fused multiply-add: bucket sizes must be rounded as in torch.
OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}


def order_both(
    query_hash: Tensor, key_hash: Tensor, rank: Tensor, shift: Tensor | None, regions: Tensor, cloud: Tensor,
    sizes: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Order queries and keys by (cloud, codes, hash).

    Args:
        query_hash: (H, C, N) float32.
        key_hash: (H, C, N) float32.
        rank: (A, N) int64, of coordinates in their cloud.
        shift: (A, C, H, B) int64, rotation of the ranks of angles; None if no coordinate is an angle.
        regions: (C, A, H) float32 numbers of buckets.
        cloud: (N,) int64, the cloud of each point.
        sizes: (B,) int64, points of each cloud.

    Returns:
        Orders (C, H, N) int64 of queries and of keys.
    """
    keys = _make_keys(query_hash, key_hash, rank, shift, regions, cloud, sizes)
    order = torch.sort(keys, dim=-1, stable=True).indices
    return order[0], order[1]


def _compute(
    query_hash: Tensor, key_hash: Tensor, rank: Tensor, shift: Tensor | None, regions: Tensor, cloud: Tensor,
    sizes: Tensor,
) -> Tensor:  # fmt: skip
    from hept.attention.kernels.triton_keys import make_keys

    n_heads, n_tables, n_points = query_hash.shape
    keys = _shape(query_hash)
    inputs = query_hash, key_hash, rank, shift if shift is not None else rank, regions, cloud, sizes
    with launch_beside(query_hash):
        make_keys[-(-n_points // CHUNK), n_tables * n_heads](
            *(each.contiguous() for each in inputs),
            keys,
            n_points,
            len(sizes),
            H=n_heads,
            C=n_tables,
            A=len(rank),
            T=CHUNK,
            HAS_SHIFT=shift is not None,
            **OPTIONS,
        )
    return keys


def _shape(query_hash: Tensor, *_: object) -> Tensor:
    n_heads, n_tables, n_points = query_hash.shape
    return query_hash.new_empty(2, n_tables, n_heads, n_points, dtype=torch.int64)


_make_keys = torch.library.custom_op(
    "hept::triton_keys",
    _compute,
    mutates_args=(),
    schema=(
        "(Tensor query_hash, Tensor key_hash, Tensor rank, Tensor? shift, Tensor regions, Tensor cloud, "
        "Tensor sizes) -> Tensor"
    ),
)
_make_keys.register_fake(_shape)
