"""Block attention in groups of blocks that fit the cache, forward and backward; nothing of size S×S is kept.

The forward pass keeps the output and the normalisation only; the backward pass computes the kernel again,
group by group. Both are operators of torch, so that `torch.compile` and fake tensors take them whole.

    w_ij = exp(−½‖q_i−k_j‖²)      [n_i, z_i] = Σ_j w_ij [v_j, 1]      out_i = n_i / z_i

Axes: N points, H heads, C tables, D dimensions of a query, V of a value, W logit columns, K blocks, S slots,
    G blocks of a group.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from hept.attention.blocks import Blocks
from hept.attention.distances import LARGEST_STEP, NEGLIGIBLE_STEP, Sharp, key_columns, query_columns
from hept.attention.eager import EPSILON
from hept.attention.groups import Groups, Room, Slots
from hept.threads import share_out


def attend_grouped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_order: Tensor,
    key_order: Tensor,
    blocks: Blocks,
    sharp: Sharp | None = None,
) -> Tensor:
    """What `attend_eager` computes, fast and small; the same arguments and result."""
    n_sharp, step = (sharp.n_columns, sharp.step) if sharp is not None else (0, None)
    slots = blocks.position, blocks.is_filled, blocks.slot
    out: Tensor = _attend(query, key, value, query_order, key_order, *slots, n_sharp, step)[0]
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
    n_sharp: int,
    step: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Outputs (H, N, V) and normalisations (H, N)."""
    n_tables, n_heads, n_points = query_order.shape
    out, total = _by_point(value), value.new_empty(n_heads, n_points)
    n_values = value.shape[-1]

    def attend_head(head: int, room: Room) -> None:
        grid, dtype = _choose_grid(query, n_sharp, step, head)
        q = room.join("query", query_columns(query[head].to(dtype), grid))
        one = query.new_ones(n_points, 1, dtype=dtype)
        k = room.join("key", [value[head], one, *key_columns(key[head].to(dtype), grid)])
        q_slots, k_slots = (
            Slots.lay(order[:, head], position, is_filled, slot) for order in (query_order, key_order)
        )
        sums = room.take("sums", dtype, *q_slots.shape, n_values + 1)
        groups = Groups(q, k, width=q.shape[1], size=q_slots.shape[1], room=room)
        for group, q_points, k_points, into in groups.cut(q_slots, k_slots, sums):
            weight = group.weigh(q_points, k_points)
            torch.bmm(weight, group.k[..., : n_values + 1], out=into)
        summed = q_slots.add_up(sums)
        total[head] = summed[:, -1].add_(n_tables * EPSILON)
        out[head] = summed[:, :-1].div_(summed[:, -1:])

    _over_heads(attend_head, value)
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
    n_sharp: int,  # noqa: ARG001
    step: Tensor | None,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    return _by_point(value), value.new_empty(query.shape[:2])


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
    n_sharp: int,
    step: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values from that of the output."""
    grads = _by_point(query), _by_point(key), _by_point(value)
    dim, n_values = query.shape[-1], value.shape[-1]

    def pull_back_head(head: int, room: Room) -> None:
        grid, dtype = _choose_grid(query, n_sharp, step, head)
        one = query.new_ones(query.shape[1], 1, dtype=dtype)
        # Gradient of [n, z], with out = n / z.
        z = total[head].unsqueeze(1)
        d_sums = grad[head] / z, -(grad[head] * out[head]).sum(1, keepdim=True) / z
        q = room.join("query", [*d_sums, one, query[head], *query_columns(query[head].to(dtype), grid)])
        k = room.join("key", [value[head], one, *key_columns(key[head].to(dtype), grid)])
        q_slots, k_slots = (
            Slots.lay(order[:, head], position, is_filled, slot) for order in (query_order, key_order)
        )
        widths = {"d_q": dim + 1, "d_k": dim + 1, "d_v": n_values}
        d_q, d_k, d_v = (room.take(name, dtype, *q_slots.shape, width) for name, width in widths.items())
        width = k.shape[1] - n_values - 1
        groups = Groups(q, k, width=width, size=q_slots.shape[1], room=room)
        for group, q_points, k_points, to_q, to_k, to_v in groups.cut(q_slots, k_slots, d_q, d_k, d_v):
            weight = group.weigh(q_points, k_points)
            d_sum, v = group.q[..., : n_values + 1], group.k[..., : n_values + 1]
            torch.bmm(weight.mT, d_sum[..., :-1], out=to_v)
            # Below its least value the kernel is flat: an outlier's huge difference must meet an exact 0.
            d_logit = torch.bmm(d_sum, v.mT, out=group.product).mul_(weight.sub_(groups.least))
            # −½‖q−k‖² changes by (k−q)·dq and (q−k)·dk: sums with [1, k] and with [1, q].
            torch.bmm(d_logit, group.k[..., -dim - 1 :], out=to_q)
            torch.bmm(d_logit.mT, group.q[..., n_values + 1 : n_values + dim + 2], out=to_k)
        for into, rows, slots, own in ((grads[0], d_q, q_slots, query), (grads[1], d_k, k_slots, key)):
            summed = slots.add_up(rows)
            into[head] = summed[:, 1:].sub_(summed[:, :1] * own[head])
        grads[2][head] = k_slots.add_up(d_v)

    _over_heads(pull_back_head, value)
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
    n_sharp: int,  # noqa: ARG001
    step: Tensor | None,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    return _by_point(query), _by_point(key), _by_point(value)


def _over_heads(work: Callable[[int, Room], None], value: Tensor) -> None:
    """Do the work of each head (H, N, V), some heads in each thread."""

    @torch.no_grad()
    def do_some(heads: range) -> None:
        room = Room(value)
        for head in heads:
            work(head, room)

    share_out(do_some, value.shape[0], value.device)


def _choose_grid(
    query: Tensor, n_sharp: int, step: Tensor | None, head: int
) -> tuple[Sharp | None, torch.dtype]:
    """How one head's distances are computed: on its grid, or in float64 without one that is fine enough."""
    if step is None or query.dtype == torch.float64:
        return None, torch.float64
    # Asking a GPU would make it wait; an outlier costs precision there.
    if type(step) is Tensor and step.device.type == "cpu":
        largest = float(step[head].max())
        # NaN too: a point that has no place is to disturb its blocks only, not its cloud.
        if not largest <= LARGEST_STEP:
            return None, torch.float64
        if largest <= NEGLIGIBLE_STEP:
            return None, query.dtype
    return Sharp(n_sharp, step[head]), query.dtype


def _by_point(rows: Tensor) -> Tensor:
    """Room for (H, N, D) with all heads of a point side by side, as the linear layers around want it."""
    return rows.new_empty(rows.shape[1], rows.shape[0], rows.shape[2]).movedim(1, 0)


def _save(
    ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]
) -> None:
    ctx.n_sharp = inputs[-2]  # type: ignore[attr-defined]
    ctx.save_for_backward(*output, *inputs[:-2], inputs[-1])


def _differentiate(
    ctx: torch.autograd.function.BackwardCFunction, grad: Tensor, _: Tensor
) -> tuple[Tensor | None, ...]:
    saved: tuple[Tensor | None, ...] = ctx.saved_tensors
    n_sharp: int = ctx.n_sharp  # type: ignore[attr-defined]
    return (*_pull_back(grad, *saved[:-1], n_sharp, saved[-1]), *[None] * 7)


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
