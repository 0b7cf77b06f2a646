"""Block attention of one head, forward and backward: its rows enter, its part of the results is filled.

    w_ij = exp(−½‖q_i−k_j‖²)      [n_i, z_i] = Σ_j w_ij [v_j, 1]      out_i = n_i / z_i

Axes: N points, H heads, M dimensions of a query, V of a value, P of a place, W logit columns, G blocks of a
    group, S slots.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hept.attention.distances import LARGEST_STEP, Selection, is_negligible, logit_parts
from hept.attention.eager import EPSILON
from hept.attention.groups import ALIGNED, Group, Groups, Room, Slots
from hept.attention.rows import Layout, Rows


def attend_head(rows: Rows, layout: Layout, head: int, room: Room, out: Tensor, total: Tensor) -> None:
    """Fill one head of the outputs (H, N, V) and of their normalisations (H, N)."""
    own, n_sharp, _ = _take_head(rows, head)
    parts = logit_parts(own.query, own.key, own.place, own.step, n_sharp).mT  # (N, R)
    columns = room.select(own.n_places, n_sharp=n_sharp, like=parts)
    at = _Columns(columns, own)
    q = room.join("query", [(parts, columns.of_query), own.query])
    k = room.join("key", [(parts, columns.of_key), own.key, own.value, (parts, at.one)])
    q_slots, k_slots = _lay(layout, head)
    sums = room.take("sums", q.dtype, *q_slots.shape, at.n_values + 1)
    groups = Groups(q, k, width=at.width, size=q_slots.shape[1], room=room)
    for group, q_points, k_points, into in groups.cut(q_slots, k_slots, sums):
        weight = group.weigh(q_points, k_points)
        torch.bmm(weight, group.of_keys(at.values), out=into)
    summed = q_slots.add_up(sums)
    z = torch.add(summed[:, at.n_values], layout.n_tables * EPSILON, out=total[head])
    torch.div(summed[:, : at.n_values], z.unsqueeze(1), out=out[head])


def pull_back_head(
    rows: Rows, layout: Layout, head: int, room: Room, at_output: tuple[Tensor, Tensor, Tensor], grads: Rows
) -> None:
    """Fill one head of the gradients.

    Args:
        rows: Queries, keys and values of all heads.
        layout: Their blocks.
        head: Which.
        room: Memory.
        at_output: Gradient of the output (H, N, V), its normalisation, and the gradient of that (H, N).
        grads: What is to be filled.
    """
    own, n_sharp, order = _take_head(rows, head)
    parts = logit_parts(own.query, own.key, own.place, own.step, n_sharp).mT  # (N, R)
    columns = room.select(own.n_places, n_sharp=n_sharp, like=parts)
    at = _Columns(columns, own)
    grad, total, d_total = (each[head] for each in at_output)
    d_sums = [grad / total.unsqueeze(1), d_total.unsqueeze(1)]
    q = room.join("query", [(parts, columns.of_query), own.query, (parts, columns.of_place), *d_sums])
    k = room.join("key", [(parts, columns.of_key), own.key, own.value, (parts, at.one)])
    q_slots, k_slots = _lay(layout, head)
    widths = {"d_q": at.dim + 1, "d_k": at.dim + 1, "d_v": at.n_values}
    into = [room.take(name, q.dtype, *q_slots.shape, each) for name, each in widths.items()]
    groups = Groups(q, k, width=at.width, size=q_slots.shape[1], room=room)
    for group, q_points, k_points, *slots in groups.cut(q_slots, k_slots, *into):
        _pull_back_group(group, group.weigh(q_points, k_points), groups.least, at, *slots)
    d_q, d_k = q_slots.add_up(into[0]), k_slots.add_up(into[1])
    p = at.n_places
    torch.addcmul(d_q[:, p + 1 :], d_q[:, :1], own.query, value=-1, out=grads.query[head])
    torch.addcmul(d_k[:, : -p - 1], d_k[:, -1:], own.key, value=-1, out=grads.key[head])
    grads.value[head] = k_slots.add_up(into[2])
    if own.place is not None and grads.place is not None:
        d_place = (d_q[:, 1 : p + 1] + d_k[:, -p - 1 : -1]).mT
        if not at.is_sharp:
            d_place = d_place - (d_q[:, 0] + d_k[:, -1]) * own.place
        grads.place[head, order] = d_place.to(grads.place.dtype)


def _pull_back_group(
    group: Group, weight: Tensor, least: Tensor, at: _Columns, to_q: Tensor, to_k: Tensor, to_v: Tensor
) -> None:
    """From the kernel values (G, S, S) of a group to the gradients (G, S, …) in its slots."""
    torch.bmm(weight.mT, group.of_queries(at.d_n), out=to_v)
    # Below its least value the kernel is flat: an outlier's huge difference must meet an exact 0.
    d_weight = torch.bmm(group.of_queries(at.d_sums), group.of_keys(at.values).mT, out=group.product)
    d_logit = d_weight.mul_(weight.sub_(least))
    if at.is_sharp:
        # Places are far from 0 and close together: seen from one of the block, their differences stay sharp.
        q_place, k_place = group.of_queries(at.q_place), group.of_keys(at.k_place)
        middle = k_place[:, :1].clone()
        q_place -= middle
        k_place -= middle
    # −½‖q−k‖² changes by (k−q)·dq and (q−k)·dk: sums with [1, c, k] and with [q, c, 1].
    torch.bmm(d_logit, group.of_keys(at.key), out=to_q)
    torch.bmm(d_logit.mT, group.of_queries(at.query), out=to_k)
    if at.is_sharp:
        to_q[..., 1 : at.n_places + 1].addcmul_(to_q[..., :1], q_place, value=-1)
        to_k[..., -at.n_places - 1 : -1].addcmul_(to_k[..., -1:], k_place, value=-1)


class _Columns:
    """Where columns lie in the rows of queries [logit, c, 1, dn, dz] and of keys [logit, v, 1].

    The logit columns of keys end in [1, c, k], those of queries in q.
    """

    def __init__(self, columns: Selection, own: Rows) -> None:
        n_narrow, self.n_places = columns.of_query.shape[1], columns.of_place.shape[1] - 1
        self.one, self.is_sharp = columns.of_place[:, self.n_places :], own.step is not None
        self.n_values = own.value.shape[-1]
        m, p = own.query.shape[-1], self.n_places
        self.dim, self.width = m + p, n_narrow + m
        self.query = slice(self.width - m, self.width + p + 1)
        self.key = slice(self.width - m - p - 1, self.width)
        self.q_place = slice(self.width, self.width + p)
        self.k_place = slice(self.width - m - p, self.width - m)
        self.d_n = slice(self.width + p + 1, self.width + p + 1 + self.n_values)
        self.d_sums = slice(self.width + p + 1, self.width + p + 2 + self.n_values)
        self.values = slice(self.width, self.width + self.n_values + 1)


def count_room(rows: Rows, layout: Layout, *, is_backward: bool) -> dict[str, int]:
    """Elements of the larger pieces of memory that one head needs at most, by name."""
    n_points, m = rows.query.shape[1:]
    n_values, n_places = rows.value.shape[-1], rows.n_places
    width = 3 * n_places + 4 + m
    n_slots = layout.n_tables * layout.blocks.position.numel()
    key = (n_points + 1) * (width + n_values + ALIGNED)
    if not is_backward:
        return {"query": (n_points + 1) * (width + ALIGNED), "key": key, "sums": n_slots * (n_values + 1)}
    query = (n_points + 1) * (width + n_places + n_values + 1 + ALIGNED)
    to_rows = n_slots * (m + n_places + 1)
    return {"query": query, "key": key, "d_q": to_rows, "d_k": to_rows, "d_v": n_slots * n_values}


def _lay(layout: Layout, head: int) -> tuple[Slots, Slots]:
    """Slots of one head's queries and keys."""
    return (
        Slots.lay(layout.query_order[:, head], layout.blocks),
        Slots.lay(layout.key_order[:, head], layout.blocks),
    )


def _take_head(rows: Rows, head: int) -> tuple[Rows, int, list[int]]:
    """One head, in float64 where no grid is fine enough.

    Returns:
        Its rows, with the places that need the grid before the others; how many need it; and which of the
        original places they are now.
    """
    dtype, n_places = rows.query.dtype, rows.n_places
    n_sharp, order = 0, list(range(n_places))
    # Nothing lies far from 0 but places, and float64 needs no grid for those.
    far = rows.place if dtype != torch.float64 else None
    if far is not None and rows.step is None:
        dtype = torch.float64
    elif far is not None and type(rows.step) is Tensor and rows.step.device.type == "cpu":
        # NaN too: a point that has no place is to disturb its blocks only, not its cloud.
        if not float(rows.step[head].max()) <= LARGEST_STEP:
            dtype = torch.float64
        else:
            reach = far[head].abs().amax(1).tolist()
            order.sort(key=lambda i: is_negligible(reach[i], n_places))
            n_sharp = sum(not is_negligible(each, n_places) for each in reach)
    elif far is not None:
        # Asking a GPU would make it wait; an outlier costs precision there.
        n_sharp = n_places
    place = rows.place[head].to(dtype) if rows.place is not None else None
    if place is not None and order != sorted(order):
        place = place[order]
    query, key, value = (each[head].to(dtype) for each in (rows.query, rows.key, rows.value))
    step = rows.step[head] if n_sharp and rows.step is not None else None
    return Rows(query, key, value, place, step), n_sharp, order
