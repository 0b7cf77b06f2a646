"""Block attention in groups of blocks that fit the cache, forward and backward; nothing of size S×S is kept.

The backward pass computes the kernel again, group by group.

Axes: N points, H heads, V dimensions of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from hept.attention.groups import Room
from hept.attention.one_head import attend_head, count_room, pull_back_head
from hept.attention.operators import define_attention
from hept.attention.rows import Layout, Rows
from hept.threads import count_workers, share_out


def attend_grouped(rows: Rows, layout: Layout) -> Tensor:
    """What `attend_eager` computes, fast and small; the same arguments and result."""
    return _attend(rows, layout)


def compute_forward(rows: Rows, layout: Layout, out: Tensor, total: Tensor) -> None:
    """Fill outputs (H, N, V) and normalisations (H, N)."""
    by_head = torch.empty_like(out, memory_format=torch.contiguous_format)
    sizes = count_room(rows, layout, is_backward=False)
    _over_heads(lambda head, room: attend_head(rows, layout, head, room, by_head, total), rows.value, sizes)
    out.copy_(by_head)


def compute_backward(
    rows: Rows, layout: Layout, grad: Tensor, out: Tensor, total: Tensor, into: Rows
) -> None:
    """Fill the gradients of queries, keys, values and places from that of the outputs."""
    d_total = (grad * out).sum(-1).div_(total).neg_()
    at_output = grad.contiguous(), total, d_total
    sizes = count_room(rows, layout, is_backward=True)
    _over_heads(
        lambda head, room: pull_back_head(rows, layout, head, room, at_output, into), rows.value, sizes
    )


def _over_heads(work: Callable[[int, Room], None], value: Tensor, sizes: Mapping[str, int]) -> None:
    """Do the work of each head (H, N, V), some heads in each thread, in memory of these sizes."""
    rooms = [Room(value, sizes) for _ in range(count_workers(value.shape[0], value.device))]

    @torch.no_grad()
    def do_some(heads: Iterable[int]) -> None:
        room = rooms.pop()
        for head in heads:
            work(head, room)

    share_out(do_some, value.shape[0], value.device)


_attend = define_attention("grouped_attention", compute_forward, compute_backward)
