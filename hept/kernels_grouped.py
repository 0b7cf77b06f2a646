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
from torch.nn import functional
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
    group = _Group(query, value, position)
    sums = value.new_empty(n_tables * position.shape[0], position.shape[1], value.shape[-1] + 1)
    for head in range(n_heads):
        columns = _logit_columns(query[head], key[head])
        v = _with_ones(value[head])
        q_index, q_back = _slots(query_order[:, head], position, slot)
        k_index, _ = _slots(key_order[:, head], position, slot)
        v_index = _blank(k_index, is_filled, n_points)
        for here in group.ranges(sums.shape[0]):
            weight = group.weigh(*columns, q_index[here], k_index[here])
            torch.bmm(weight, _rows(v, v_index[here]), out=sums[here])
        summed = _return(sums, q_back)
        torch.add(summed[:, -1], n_tables * EPSILON, out=total[head])
        torch.div(summed[:, :-1], total[head].unsqueeze(-1), out=out[head])
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
    n_heads, n_points = total.shape
    grads = query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)
    group = _Group(query, value, position)
    n_blocks, size = query_order.shape[0] * position.shape[0], position.shape[1]
    slots = [rows.new_empty(n_blocks, size, rows.shape[-1]) for rows in grads]
    for head in range(n_heads):
        columns = _logit_columns(query[head], key[head])
        v = _with_ones(value[head])
        # Gradient of [n, z], with out = n / z.
        d_total = -(grad[head] * out[head]).sum(-1, keepdim=True)
        d_sums = torch.cat([grad[head], d_total], -1).div_(total[head].unsqueeze(-1))
        d_sums = functional.pad(d_sums, (0, 0, 0, 1))  # (N+1, V+1)
        q_index, q_back = _slots(query_order[:, head], position, slot)
        k_index, k_back = _slots(key_order[:, head], position, slot)
        d_index, v_index = (_blank(index, is_filled, n_points) for index in (q_index, k_index))
        for here in group.ranges(n_blocks):
            weight = group.weigh(*columns, q_index[here], k_index[here])
            d_q, d_k, d_v = (rows[here] for rows in slots)
            d_sum = _rows(d_sums, d_index[here])  # (G, S, V+1)
            torch.bmm(weight.mT, d_sum[..., :-1], out=d_v)
            d_weight = torch.bmm(d_sum, _rows(v, v_index[here]).mT)  # (G, S, S)
            d_logit = d_weight.mul_(weight.sub_(group.least))
            # −½‖q−k‖² changes by (k−q)·dq and (q−k)·dk; differences are taken around the middle of the block.
            q, k = _rows(query[head], q_index[here]), _rows(key[head], k_index[here])
            middle = k[:, k.shape[1] // 2].unsqueeze(1).clone()
            q, k = q.sub_(middle), k.sub_(middle)
            torch.bmm(d_logit, k, out=d_q).sub_(q * d_logit.sum(2, keepdim=True))
            torch.bmm(d_logit.mT, q, out=d_k).sub_(k.mul_(d_logit.sum(1).unsqueeze(-1)))
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
    """Kernel values of a few blocks at a time, in reused memory.

    Attributes:
        least: The smallest kernel value. Below, the kernel is flat: in the backward pass an outlier's huge
            difference must meet an exact 0.
    """

    def __init__(self, query: Tensor, value: Tensor, position: Tensor) -> None:
        size, width = position.shape[1], query.shape[-1] + 2
        elements = GROUP_ELEMENTS.get(query.device.type, GROUP_ELEMENTS_ELSEWHERE)
        self.n_blocks = max(1, elements // size**2)
        double = query.new_empty(0, dtype=torch.float64)
        self.q = double.new_empty(self.n_blocks, size, width)
        self.k = double.new_empty(self.n_blocks, size, width)
        self.logit = double.new_empty(self.n_blocks, size, size)
        self.weight = value.new_empty(self.n_blocks, size, size)
        # exp of less is subnormal, which costs a processor hundreds of cycles; it is far below EPSILON.
        self.floor = 0.86 * math.log(torch.finfo(value.dtype).tiny)
        self.least = value.new_full((64,), self.floor).exp_()[0]

    def ranges(self, n_blocks: int) -> list[slice]:
        """The groups of so many blocks."""
        return [
            slice(begin, min(begin + self.n_blocks, n_blocks)) for begin in range(0, n_blocks, self.n_blocks)
        ]

    def weigh(self, query: Tensor, key: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
        """Kernel values (G, S, S) from the columns of queries and keys (N, D+2) at the slots (G, S)."""
        n = q_index.shape[0]
        q, k = self.q[:n], self.k[:n]
        torch.index_select(query, 0, q_index.flatten(), out=q.flatten(0, 1))
        torch.index_select(key, 0, k_index.flatten(), out=k.flatten(0, 1))
        logit = torch.bmm(q, k.mT, out=self.logit[:n])
        return self.weight[:n].copy_(logit).clamp_(self.floor, 0.0).exp_()


def _logit_columns(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """[q, 1, −½q²] and [k, −½k², 1], whose product is −½‖q−k‖²: (N, D+2) twice, from (N, D).

    In float32 the three terms cancel badly, by up to 0.6 with trained ω. In float64 they do not, and one
    matrix product does it all.
    """
    dim = query.shape[1]
    q, k = (rows.new_ones(rows.shape[0], dim + 2, dtype=torch.float64) for rows in (query, key))
    for columns, rows, last in ((q, query, dim + 1), (k, key, dim)):
        columns[:, :dim] = rows
        torch.mul(columns[:, :dim].square().sum(-1), -0.5, out=columns[:, last])
    return q, k


def _slots(order: Tensor, position: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
    """Of one head: the point of each slot (C·K, S), and the slot of each point in each table (C, N)."""
    n_tables, n_points = order.shape
    points = order.index_select(1, position.flatten()).view(-1, position.shape[1])
    ranks = torch.empty_like(order)
    ranks.scatter_(1, order, torch.arange(n_points, device=order.device).expand(order.shape))
    table = torch.arange(n_tables, device=order.device).unsqueeze(1) * position.numel()
    return points, slot.take(ranks) + table


def _with_ones(value: Tensor) -> Tensor:
    """[v, 1] of each point, and behind them [0, 0] for empty slots, which so have no weight: (N+1, V+1)."""
    return functional.pad(functional.pad(value, (0, 1), value=1.0), (0, 0, 0, 1))


def _blank(index: Tensor, is_filled: Tensor, n_points: int) -> Tensor:
    """The points of slots (C·K, S), with the row behind the last point in empty slots."""
    is_filled = is_filled.repeat(index.shape[0] // is_filled.shape[0], 1)
    return torch.where(is_filled, index, n_points)


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows (N, D) at slots (G, S): (G, S, D)."""
    # Several times faster than indexing by the same integers.
    return table.index_select(0, index.flatten()).view(*index.shape, table.shape[1])


def _return(slots: Tensor, back: Tensor) -> Tensor:
    """Rows of slots (C·K, S, D), added over the tables, at the points: (N, D)."""
    rows = slots.flatten(0, 1)
    summed = rows.index_select(0, back[0])
    for table in back[1:]:
        summed += rows.index_select(0, table)
    return summed


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
