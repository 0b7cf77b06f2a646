"""Block attention in groups of blocks that fit the cache, forward and backward; nothing of size S×S is kept.

The forward pass keeps the output and the normalisation only; the backward pass computes the kernel again,
group by group. Both are operators of torch, so that `torch.compile` and fake tensors take them whole.

    w_ij = exp(−½‖q_i−k_j‖²)      [n_i, z_i] = Σ_j w_ij [v_j, 1]      out_i = n_i / z_i

Axes: N points, H heads, C tables, D dimensions of a query, V of a value, K blocks, S slots, G blocks of a
    group.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from hept.blocks import Blocks
from hept.kernels_eager import EPSILON

# Kernel values of one group: 16 blocks of 100 in 8 + 4 + 4 bytes fill the second-level caches of two cores.
# A GPU wants few and large launches instead.
GROUP_ELEMENTS = {"cpu": 160_000}
GROUP_ELEMENTS_ELSEWHERE = 1 << 25


def attend_grouped(
    query: Tensor, key: Tensor, value: Tensor, query_order: Tensor, key_order: Tensor, blocks: Blocks
) -> Tensor:
    """What `attend_eager` computes, fast and small on a CPU; the same arguments and result."""
    out: Tensor = _attend(
        query, key, value, query_order, key_order, blocks.position, blocks.is_filled, blocks.slot
    )[0]
    return out


def compute_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_order: Tensor,
    key_order: Tensor,
    position: Tensor,
    is_filled: Tensor,
    slot: Tensor,
) -> tuple[Tensor, Tensor]:
    """Outputs (H, N, V) and normalisations (H, N)."""
    n_tables, n_heads, n_points = query_order.shape
    out = value.new_empty(value.shape)
    total = value.new_empty(n_heads, n_points)
    filled = is_filled.repeat(n_tables, 1)[..., None].to(value.dtype)  # (C·K, S, 1)
    group = _Group(query, value, position)
    sums = value.new_empty(filled.shape[0], filled.shape[1], value.shape[-1] + 1)
    for head in range(n_heads):
        q_index, q_back = _slots(query_order[:, head], position, slot)
        k_index, _ = _slots(key_order[:, head], position, slot)
        for begin, end in group.ranges(filled.shape[0]):
            weight = group.weigh(query[head], key[head], q_index[begin:end], k_index[begin:end])
            v = _with_ones(value[head], k_index[begin:end], filled[begin:end])
            torch.bmm(weight, v, out=sums[begin:end])
        summed = _return(sums, q_back)
        torch.add(summed[:, -1], n_tables * EPSILON, out=total[head])
        torch.div(summed[:, :-1], total[head][:, None], out=out[head])
    return out, total


def _shape_forward(
    query: Tensor,
    key: Tensor,  # noqa: ARG001
    value: Tensor,
    query_order: Tensor,  # noqa: ARG001
    key_order: Tensor,  # noqa: ARG001
    position: Tensor,  # noqa: ARG001
    is_filled: Tensor,  # noqa: ARG001
    slot: Tensor,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    return value.new_empty(value.shape), value.new_empty(query.shape[:2])


def compute_backward(
    grad: Tensor,
    out: Tensor,
    total: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_order: Tensor,
    key_order: Tensor,
    position: Tensor,
    is_filled: Tensor,
    slot: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values from that of the output."""
    n_tables, n_heads, _ = query_order.shape
    grads = query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)
    filled = is_filled.repeat(n_tables, 1)[..., None].to(value.dtype)  # (C·K, S, 1)
    group = _Group(query, value, position)
    slots = [value.new_empty(*filled.shape[:2], rows.shape[-1]) for rows in (query, key, value)]
    # Gradient of [n, z], with out = n / z.
    d_sums = torch.cat([grad, -(grad * out).sum(-1, keepdim=True)], -1) / total[..., None]  # (H, N, V+1)
    for head in range(n_heads):
        q_index, q_back = _slots(query_order[:, head], position, slot)
        k_index, k_back = _slots(key_order[:, head], position, slot)
        for begin, end in group.ranges(filled.shape[0]):
            here = slice(begin, end)
            weight = group.weigh(query[head], key[head], q_index[here], k_index[here])
            v = _with_ones(value[head], k_index[here], filled[here])
            d_sum = d_sums[head][q_index[here]] * filled[here]  # (G, S, V+1)
            group.pull(weight, d_sum, v, *(rows[here] for rows in slots))
        for rows, into, back in zip(slots, grads, (q_back, k_back, k_back), strict=True):
            into[head] = _return(rows, back)
    return grads


def _shape_backward(
    grad: Tensor,  # noqa: ARG001
    out: Tensor,  # noqa: ARG001
    total: Tensor,  # noqa: ARG001
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_order: Tensor,  # noqa: ARG001
    key_order: Tensor,  # noqa: ARG001
    position: Tensor,  # noqa: ARG001
    is_filled: Tensor,  # noqa: ARG001
    slot: Tensor,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


class _Group:
    """The arithmetic of a few blocks in reused memory."""

    def __init__(self, query: Tensor, value: Tensor, position: Tensor) -> None:
        size, dim = position.shape[1], query.shape[-1]
        elements = GROUP_ELEMENTS.get(query.device.type, GROUP_ELEMENTS_ELSEWHERE)
        self.n_blocks = max(1, elements // size**2)
        self.dim = dim
        double = query.new_empty(0, dtype=torch.float64)
        # [q, 1, −½q²] · [k, −½k², 1] is −½‖q−k‖². In float32 the three terms cancel badly (by up to 0.6
        # with trained ω); in float64, around the middle of the block, they do not, and one matrix product
        # does it all.
        self.q = double.new_ones(self.n_blocks, size, dim + 2)
        self.k = double.new_ones(self.n_blocks, dim + 2, size)
        self.logit = double.new_empty(self.n_blocks, size, size)
        self.weight = value.new_empty(self.n_blocks, size, size)
        # exp of less is subnormal, which costs a processor hundreds of cycles; far below EPSILON all the
        # same.
        self.floor = 0.86 * math.log(torch.finfo(value.dtype).tiny)
        self.least = value.new_full((64,), self.floor).exp_()[0]

    def ranges(self, n_blocks: int) -> list[tuple[int, int]]:
        """The groups of so many blocks."""
        step = self.n_blocks
        return [(begin, min(begin + step, n_blocks)) for begin in range(0, n_blocks, step)]

    def weigh(self, query: Tensor, key: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
        """Kernel values (G, S, S) of queries and keys (N, D) at the slots (G, S)."""
        n, d = q_index.shape[0], self.dim
        q, k = self.q[:n], self.k[:n]
        rows = key[k_index]  # (G, S, D)
        middle = rows[:, rows.shape[1] // 2, None].double()
        torch.sub(query[q_index], middle, out=q[..., :d])
        torch.sub(rows.mT, middle.mT, out=k[:, :d])
        torch.mul(q[..., :d].square().sum(-1), -0.5, out=q[..., d + 1])
        torch.mul(k[:, :d].square().sum(1), -0.5, out=k[:, d])
        logit = torch.bmm(q, k, out=self.logit[:n])
        return self.weight[:n].copy_(logit).clamp_(self.floor, 0.0).exp_()

    def pull(self, weight: Tensor, d_sum: Tensor, v: Tensor, d_q: Tensor, d_k: Tensor, d_v: Tensor) -> None:
        """Gradients at the slots of the group last weighed, from that of its sums d_sum (G, S, V+1)."""
        n, d = weight.shape[0], self.dim
        torch.bmm(weight.mT, d_sum[..., :-1], out=d_v)
        # Below the floor the kernel is flat: an outlier's huge difference must meet an exact 0.
        d_logit = torch.bmm(d_sum, v.mT).mul_(weight.sub_(self.least))  # (G, S, S)
        q = self.q[:n, :, :d].to(weight.dtype)
        k = self.k[:n, :d].mT.to(weight.dtype)
        # −½‖q−k‖² changes by (k−q)·dq and (q−k)·dk.
        torch.bmm(d_logit, k, out=d_q).sub_(q * d_logit.sum(2)[..., None])
        torch.bmm(d_logit.mT, q, out=d_k).sub_(k * d_logit.sum(1)[..., None])


def _slots(order: Tensor, position: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
    """Of one head: the point of each slot (C·K, S), and the slot of each point in each table (C, N)."""
    n_tables, n_points = order.shape
    points = order[:, position.flatten()].view(-1, position.shape[1])
    ranks = torch.empty_like(order)
    ranks.scatter_(1, order, torch.arange(n_points, device=order.device).expand(order.shape))
    table = torch.arange(n_tables, device=order.device)[:, None] * position.numel()
    return points, slot[ranks] + table


def _return(slots: Tensor, back: Tensor) -> Tensor:
    """Rows of slots (C·K, S, D), added over the tables, at the points: (N, D)."""
    rows = slots.flatten(0, 1)
    summed = rows[back[0]]
    for table in back[1:]:
        summed += rows[table]
    return summed


def _with_ones(value: Tensor, index: Tensor, filled: Tensor) -> Tensor:
    """[v, 1] of the keys at slots, and [0, 0] at empty ones, which so have no weight: (G, S, V+1)."""
    v = value.new_ones(*index.shape, value.shape[-1] + 1)
    v[..., :-1] = value[index]
    return v.mul_(filled)


def _save(
    ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]
) -> None:
    ctx.save_for_backward(*output, *inputs)


def _differentiate(
    ctx: torch.autograd.function.BackwardCFunction, grad: Tensor, _: Tensor
) -> tuple[Tensor | None, ...]:
    return (*_pull_back(grad, *ctx.saved_tensors), None, None, None, None, None)


_attend = torch.library.custom_op("hept::grouped_attention", compute_forward, mutates_args=())
_attend.register_fake(_shape_forward)
_pull_back = torch.library.custom_op("hept::grouped_attention_backward", compute_backward, mutates_args=())
_pull_back.register_fake(_shape_backward)
_attend.register_autograd(_differentiate, setup_context=_save)


@register_flop_formula([torch.ops.hept.grouped_attention])
def _count_flops(
    query: torch.Size,
    key: torch.Size,  # noqa: ARG001
    value: torch.Size,
    query_order: torch.Size,
    key_order: torch.Size,  # noqa: ARG001
    position: torch.Size,
    *_: object,
    **__: object,
) -> int:
    """Two operations a multiply-add, for torch's counter: S² products of D and V columns in each block."""
    n_tables, n_heads, _n = query_order
    n_blocks, size = position
    return int(2 * n_tables * n_heads * n_blocks * size**2 * (query[-1] + value[-1]))
