"""Block attention in compiled loops, for float32 on a CPU: nothing larger than a block's rows is in the way.

The loops (native.cpp) are compiled where the package is installed, if there is a compiler. They are called
with addresses and without Python's lock, some heads in each thread.

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P of a place, K blocks, S slots.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from hept.attention.eager import EPSILON
from hept.attention.operators import define_attention
from hept.attention.rows import Layout, Rows
from hept.threads import count_workers, share_out

SIZES = "n_heads", "n_points", "n_tables", "query_dim", "place_dim", "n_values", "n_blocks", "block_size"
INPUTS = "query", "key", "value", "place", "query_order", "key_order", "position", "is_filled"


class _Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in SIZES]


class _Inputs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in INPUTS]


class _Gradients(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in INPUTS[:4]]


def _load_library() -> ctypes.CDLL | None:
    """The compiled loops, or None where there are none."""
    found = importlib.util.find_spec("hept.attention._native")
    if found is None or found.origin is None:
        return None
    try:
        library = ctypes.CDLL(found.origin)
    except OSError:
        # Made for another kind of machine.
        return None
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    shape, inputs, gradients = (ctypes.POINTER(each) for each in (_Shape, _Inputs, _Gradients))
    library.hept_limit_lanes.argtypes, library.hept_limit_lanes.restype = [integer], integer
    library.hept_count_room.argtypes = [shape, ctypes.c_int32]
    library.hept_attend.argtypes = [shape, inputs, integer, ctypes.c_float, pointer, pointer, pointer]
    library.hept_pull_back.argtypes = [shape, inputs, integer, *[pointer] * 4, gradients]
    library.hept_count_room.restype, library.hept_attend.restype = integer, None
    library.hept_pull_back.restype = None
    return library


_library = _load_library()


def limit_lanes(most: int) -> int:
    """Use loops for registers of so many numbers at most, as an older processor would; how many they have."""
    return int(_library.hept_limit_lanes(most)) if _library is not None else 0


def can_attend(rows: Rows) -> bool:
    """Whether the compiled loops are there, and made for such rows."""
    return _library is not None and rows.query.device.type == "cpu" and rows.query.dtype == torch.float32


def attend_native(rows: Rows, layout: Layout) -> Tensor:
    """What `attend_eager` computes, in compiled loops; the same arguments and result.

    Raises:
        ValueError: Where there are no such loops.
    """
    if not can_attend(rows):
        found = "no compiled part of hept" if _library is None else "one for float32 on a CPU"
        raise ValueError(
            f"backend 'native': found {found}, got {rows.query.dtype} on {rows.query.device.type}; "
            "choose 'auto', or install hept where there is a C++ compiler"
        )
    return _attend(rows, layout)


def compute_forward(rows: Rows, layout: Layout, out: Tensor, total: Tensor) -> None:
    """Fill outputs (H, N, V), in memory (N, H, V), and normalisations (H, N)."""
    call = _Call(rows, layout)
    to = out.movedim(0, 1).data_ptr(), total.data_ptr()
    call.over_heads("hept_attend", lambda room: (layout.n_tables * EPSILON, room, *to), is_backward=False)


def compute_backward(
    rows: Rows, layout: Layout, grad: Tensor, out: Tensor, total: Tensor, into: Rows
) -> None:
    """Fill the gradients of queries, keys, values and places from that of the outputs."""
    call = _Call(rows, layout)
    at_output = grad.movedim(0, 1).contiguous(), out.movedim(0, 1).contiguous(), total.contiguous()
    addresses = [each.data_ptr() for each in at_output]
    place = into.place if into.place is not None else into.query
    grads = _Gradients(*(each.data_ptr() for each in (into.query, into.key, into.value, place)))
    call.over_heads("hept_pull_back", lambda room: (*addresses, room, grads), is_backward=True)


class _Call:
    """Sizes and addresses of the tensors, which it keeps."""

    def __init__(self, rows: Rows, layout: Layout) -> None:
        blocks, orders = layout.blocks, (layout.query_order.int(), layout.key_order.int())
        n_heads, n_points, query_dim = rows.query.shape
        of_points = n_heads, n_points, layout.n_tables, query_dim, rows.n_places, rows.value.shape[-1]
        self.shape = _Shape(*of_points, *blocks.position.shape)
        place = rows.place if rows.place is not None else rows.query
        tensors = rows.query, rows.key, rows.value, place, *orders, blocks.position, blocks.is_filled
        self.tensors = [each.contiguous() for each in tensors]
        self.inputs = _Inputs(*(each.data_ptr() for each in self.tensors))

    def over_heads(self, name: str, rest: Callable[[int], tuple[object, ...]], *, is_backward: bool) -> None:
        """Call a function for each head, some heads in each thread.

        Args:
            name: Of the function.
            rest: Its last arguments, from the address of memory that the thread has to itself.
            is_backward: Which pass the memory is for.
        """
        library = _library
        assert library is not None
        n_heads, cpu = self.shape.n_heads, torch.device("cpu")
        size = library.hept_count_room(self.shape, is_backward)
        rooms = [torch.empty(size, dtype=torch.float32) for _ in range(count_workers(n_heads, cpu))]
        free = list(rooms)

        def do_some(heads: Iterable[int]) -> None:
            last = rest(free.pop().data_ptr())
            for head in heads:
                getattr(library, name)(self.shape, self.inputs, head, *last)

        share_out(do_some, n_heads, cpu)


_attend = define_attention("native_attention", compute_forward, compute_backward)
