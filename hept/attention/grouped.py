"""Block attention in groups of blocks that fit the cache, forward and backward; nothing of size S×S is kept.

The forward pass keeps the output and the normalisation only; the backward pass computes the kernel again,
group by group. Both are operators of torch, so that `torch.compile` and fake tensors take them whole.

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P of a place, K blocks, S slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from hept.attention.blocks import Blocks
from hept.attention.groups import Room
from hept.attention.one_head import attend_head, count_room, pull_back_head
from hept.attention.rows import Layout, Rows
from hept.threads import count_workers, share_out


def attend_grouped(rows: Rows, layout: Layout) -> Tensor:
    """What `attend_eager` computes, fast and small; the same arguments and result."""
    blocks = layout.blocks
    slots = blocks.position, blocks.is_filled, blocks.slot
    inputs = rows.query, rows.key, rows.value, rows.place, rows.step
    # They are kept for the backward pass, and points are fewer than 2³¹.
    orders = layout.query_order.int(), layout.key_order.int()
    out: Tensor = _attend(*inputs, *orders, *slots)[0]
    return out


def compute_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    place: Tensor | None,
    step: Tensor | None,
    query_order: Tensor,
    key_order: Tensor,
    position: Tensor,
    is_filled: Tensor,
    slot: Tensor,
) -> tuple[Tensor, Tensor]:
    """Outputs (H, N, V) and normalisations (H, N)."""
    rows = Rows(query, key, value, place, step)
    layout = Layout(query_order, key_order, Blocks(position, is_filled, slot))
    out, total = value.new_empty(value.shape), value.new_empty(value.shape[:2])
    sizes = count_room(rows, layout, is_backward=False)
    _over_heads(lambda head, room: attend_head(rows, layout, head, room, out, total), value, sizes)
    return _by_point(out).copy_(out), total


def compute_backward(
    grad: Tensor,
    out: Tensor,
    total: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    place: Tensor | None,
    step: Tensor | None,
    query_order: Tensor,
    key_order: Tensor,
    position: Tensor,
    is_filled: Tensor,
    slot: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of queries, keys, values and places from that of the output."""
    rows = Rows(query, key, value, place, step)
    layout = Layout(query_order, key_order, Blocks(position, is_filled, slot))
    grads = Rows(*_shape_backward(grad, out, total, query, key, value, place))
    d_total = (grad * out).sum(-1).div_(total).neg_()
    at_output = grad.contiguous(), total, d_total
    sizes = count_room(rows, layout, is_backward=True)
    _over_heads(lambda head, room: pull_back_head(rows, layout, head, room, at_output, grads), value, sizes)
    return grads.query, grads.key, grads.value, grads.place  # type: ignore[return-value]


def _over_heads(work: Callable[[int, Room], None], value: Tensor, sizes: Mapping[str, int]) -> None:
    """Do the work of each head (H, N, V), some heads in each thread, in memory of these sizes."""
    rooms = [Room(value, sizes) for _ in range(count_workers(value.shape[0], value.device))]

    @torch.no_grad()
    def do_some(heads: Iterable[int]) -> None:
        room = rooms.pop()
        for head in heads:
            work(head, room)

    share_out(do_some, value.shape[0], value.device)


def _by_point(rows: Tensor) -> Tensor:
    """Memory for (H, N, D) with all heads of a point side by side, as the linear layer behind wants it."""
    return rows.new_empty(rows.shape[1], rows.shape[0], rows.shape[2]).movedim(1, 0)


def _shape_forward(_query: Tensor, _key: Tensor, value: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return _by_point(value), value.new_empty(value.shape[:2])


def _shape_backward(
    _grad: Tensor,
    _out: Tensor,
    _total: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    place: Tensor | None,
    *_: object,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    d_place = query.new_empty(0) if place is None else place.new_empty(place.shape)
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape), d_place


def _save(
    ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]
) -> None:
    ctx.save_for_backward(*output, *inputs)


def _differentiate(
    ctx: torch.autograd.function.BackwardCFunction, grad: Tensor, _: Tensor
) -> tuple[Tensor | None, ...]:
    saved: tuple[Tensor | None, ...] = ctx.saved_tensors
    *d_rows, d_place = _pull_back(grad, *saved)
    return (*d_rows, None if saved[5] is None else d_place, *[None] * 6)


_attend = torch.library.custom_op("hept::grouped_attention", compute_forward, mutates_args=())
_attend.register_fake(_shape_forward)
_pull_back = torch.library.custom_op("hept::grouped_attention_backward", compute_backward, mutates_args=())
_pull_back.register_fake(_shape_backward)
_attend.register_autograd(_differentiate, setup_context=_save)


@register_flop_formula([torch.ops.hept.grouped_attention])
def _count_flops(
    query: torch.Size,
    _key: torch.Size,
    value: torch.Size,
    place: torch.Size | None,
    _step: torch.Size | None,
    query_order: torch.Size,
    _key_order: torch.Size,
    position: torch.Size,
    *_: object,
    **__: object,
) -> int:
    """Two operations a multiply-add, for torch's counter: S² products of M+P and V columns a block."""
    n_tables, n_heads, _n = query_order
    n_blocks, size = position
    dim = query[-1] + (place[-2] if place is not None else 0)
    return int(2 * n_tables * n_heads * n_blocks * size**2 * (dim + value[-1]))
