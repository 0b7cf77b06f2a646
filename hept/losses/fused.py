"""InfoNCE on a GPU in one kernel, without synchronisation: the launch of `hept.losses.triton_pairs`.

Axes: N points, D dimensions, E pairs, B clouds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hept.devices.triton_support import launch_beside

# Pairs that a program processes at a time.
CHUNK = 64
# Units of exact gradients, see `hept.losses.triton_pairs`.
UNIT = 2.0**40
OPTIONS = {"num_warps": 4, "num_stages": 2, "enable_fp_fusion": True}

INPUTS = (
    "Tensor x, Tensor positive_ptr, Tensor positive_idx, Tensor negative_ptr, Tensor negative_idx, "
    "Tensor particle, Tensor weight, Tensor? offsets, int seed, float fraction, float tau, "
    "bool published, bool exact"
)


def find_constants(dim: int, n_clouds: int) -> dict[str, int]:
    """Sizes that the kernel is compiled for."""
    return {"D": dim, "DP": _pad(dim), "T": CHUNK, "BP": _pad(n_clouds + 1)}


def _compute(
    x: Tensor,
    positive_ptr: Tensor,
    positive_idx: Tensor,
    negative_ptr: Tensor,
    negative_idx: Tensor,
    particle: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    seed: int,
    fraction: float,
    tau: float,
    published: bool,
    exact: bool,
) -> tuple[Tensor, Tensor]:
    from hept.losses.triton_pairs import add_anchors

    n_points, dim = x.shape
    loss, grad = x.new_empty(n_points), x.new_zeros(n_points, dim, dtype=find_dtype(exact))
    rows = positive_ptr, positive_idx, negative_ptr, negative_idx, particle, weight
    n_clouds = len(offsets) - 1 if offsets is not None else 0
    with launch_beside(x):
        add_anchors[n_points,](
            *(each.contiguous() for each in (x, *rows, offsets if offsets is not None else positive_ptr)),
            loss,
            grad,
            seed,
            fraction,
            tau,
            n_clouds,
            PUBLISHED=published,
            WITH_DRAWS=offsets is not None,
            EXACT=exact,
            **find_constants(dim, n_clouds),
            **OPTIONS,
        )
    return loss, grad


sum_pairs = torch.library.custom_op(
    "hept::triton_info_nce", _compute, mutates_args=(), schema=f"({INPUTS}) -> (Tensor, Tensor)"
)


@sum_pairs.register_fake
def _shape(x: Tensor, *others: object) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0]), x.new_empty(x.shape, dtype=find_dtype(bool(others[-1])))


def find_dtype(exact: bool) -> torch.dtype:
    """Of the gradients: integers where sums must not depend on their order."""
    return torch.int64 if exact else torch.float32


def _pad(size: int) -> int:
    """The next power of two."""
    return 1 << max(size - 1, 0).bit_length()
