"""Block attention in compiled loops, for float32 on a CPU: only one block's kernel is in memory at a time.

The loops (native.cpp) are compiled at installation, if there is a compiler. They take addresses, and
distribute the heads over torch's threads.

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P coordinates, K blocks, S slots.
"""

from __future__ import annotations

import ctypes
import importlib.util

import torch
from torch import Tensor

from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.operators import define_attention
from hept.attention.kernels.plain import EPSILON

# Version of the interface of native.cpp; a library of another version must be compiled again.
INTERFACE = 2
SIZES = "n_heads", "n_points", "n_tables", "query_dim", "coords_dim", "n_values", "n_blocks", "block_size"
INPUTS = "query", "key", "value", "coords", "query_order", "key_order", "position", "is_filled"


class _Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in SIZES]


class _Inputs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in INPUTS]


class _Gradients(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in INPUTS[:4]]


def _load_library() -> ctypes.CDLL | None:
    """The compiled loops, or None if they are missing or of another version."""
    found = importlib.util.find_spec("hept.attention.kernels._native")
    if found is None or found.origin is None:
        return None
    try:
        library = ctypes.CDLL(found.origin)
        is_ours = library.hept_interface() == INTERFACE
    except (OSError, AttributeError):
        # Compiled for another platform, or by an old version.
        return None
    if not is_ours:
        return None
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    shape, inputs, gradients = (ctypes.POINTER(each) for each in (_Shape, _Inputs, _Gradients))
    library.hept_count_lanes.restype = integer
    library.hept_limit_lanes.argtypes, library.hept_limit_lanes.restype = [integer], None
    library.hept_count_workspace.argtypes = [shape, ctypes.c_int32]
    library.hept_attend.argtypes = [shape, inputs, integer, ctypes.c_float, pointer, pointer, pointer]
    library.hept_backward.argtypes = [shape, inputs, integer, *[pointer] * 4, gradients]
    library.hept_count_workspace.restype, library.hept_attend.restype = integer, None
    library.hept_backward.restype = None
    return library


_library = _load_library()


def count_lanes() -> int:
    """Number of SIMD lanes of the loops, 0 if there are no loops."""
    return int(_library.hept_count_lanes()) if _library is not None else 0


def limit_lanes(most: int) -> None:
    """Use loops with at most `most` lanes, as on an older processor."""
    if _library is not None:
        _library.hept_limit_lanes(most)


def can_attend(operands: Operands) -> bool:
    """Whether the compiled loops exist and support these operands."""
    tensors = operands.query, operands.key, operands.value, operands.coords
    return _library is not None and all(
        each is None or (each.device.type == "cpu" and each.dtype == torch.float32) for each in tensors
    )


def attend_native(operands: Operands, layout: Layout) -> Tensor:
    """Compute `attend_plain` in compiled loops; same arguments, same result.

    Args:
        operands: Queries, keys and values of the points, float32 on a CPU.
        layout: Which of them share a block. Its orders must be permutations of the points (not checked).

    Raises:
        ValueError: There are no loops for these operands, or shapes do not match.
    """
    if not can_attend(operands):
        found = "is not compiled" if _library is None else "computes float32 on a CPU only"
        raise ValueError(
            f"backend 'native' {found}; got {operands.query.dtype} on {operands.query.device.type}; "
            "choose 'auto', or install hept with a C++ compiler"
        )
    _check_shapes(operands, layout)
    given = operands.query, operands.key, operands.value, operands.coords
    rows = Operands(*(each.contiguous() if each is not None else None for each in given))  # type: ignore[arg-type]
    # The orders are saved for the backward pass; int32 halves their memory (points are fewer than 2³¹).
    orders = layout.query_order.int(), layout.key_order.int()
    return _attend(rows, Layout(*orders, layout.blocks))


def compute_forward(operands: Operands, layout: Layout, out: Tensor, total: Tensor) -> None:
    """Fill outputs (H, N, V), stored as (N, H, V), and normalisations (H, N)."""
    call = _Call(operands, layout)
    to = out.movedim(0, 1).data_ptr(), total.data_ptr()
    workspace = call.make_workspace(is_backward=False)
    call.library.hept_attend(*call.inputs, layout.n_tables * EPSILON, workspace.data_ptr(), *to)


def compute_backward(
    operands: Operands, layout: Layout, grad: Tensor, out: Tensor, total: Tensor, into: Operands
) -> None:
    """Fill the gradients of queries, keys, values and coordinates from the outputs' gradient."""
    call = _Call(operands, layout)
    at_output = grad.movedim(0, 1).contiguous(), out.movedim(0, 1).contiguous(), total.contiguous()
    coords = into.coords if into.coords is not None else into.query
    grads = _Gradients(*(each.data_ptr() for each in (into.query, into.key, into.value, coords)))
    workspace = call.make_workspace(is_backward=True)
    addresses = (each.data_ptr() for each in (*at_output, workspace))
    call.library.hept_backward(*call.inputs, *addresses, grads)


def _check_shapes(operands: Operands, layout: Layout) -> None:
    """Check all shapes: the loops receive addresses only."""
    n_heads, n_points, _ = operands.query.shape
    of_coords = operands.coords.shape if operands.coords is not None else (n_heads, 0, n_points)
    orders = layout.query_order.shape, layout.key_order.shape
    fits = (
        operands.key.shape == operands.query.shape
        and operands.value.shape[:2] == (n_heads, n_points)
        and (of_coords[0], of_coords[2]) == (n_heads, n_points)
        and orders == ((layout.n_tables, n_heads, n_points),) * 2
        and layout.blocks.position.shape == layout.blocks.is_filled.shape
    )
    if not fits:
        raise ValueError(
            f"operands and layout: got queries {tuple(operands.query.shape)}, "
            f"keys {tuple(operands.key.shape)}, values {tuple(operands.value.shape)}, "
            f"coordinates {tuple(of_coords)}, orders {tuple(orders[0])} and {tuple(orders[1])}; "
            "need (H, N, M) twice, (H, N, V), (H, P, N) and (C, H, N) twice"
        )


class _Call:
    """The first arguments of a call; it also keeps the tensors alive to which they point.

    Attributes:
        library: Compiled loops.
        inputs: Sizes, addresses, and the number of threads.
    """

    def __init__(self, operands: Operands, layout: Layout) -> None:
        assert _library is not None
        self.library, blocks = _library, layout.blocks
        n_heads, n_points, query_dim = operands.query.shape
        of_points = n_heads, n_points, layout.n_tables, query_dim, operands.n_coords, operands.value.shape[-1]
        coords = operands.coords if operands.coords is not None else operands.query
        orders = layout.query_order.int(), layout.key_order.int()
        slots = blocks.position.long(), blocks.is_filled.bool()
        tensors = operands.query, operands.key, operands.value, coords, *orders, *slots
        self._tensors = [each.contiguous() for each in tensors]
        self._shape = _Shape(*of_points, *blocks.position.shape)
        self._n_threads = max(1, min(torch.get_num_threads(), n_heads))
        addresses = _Inputs(*(each.data_ptr() for each in self._tensors))
        self.inputs = self._shape, addresses, self._n_threads

    def make_workspace(self, *, is_backward: bool) -> Tensor:
        """Allocate the workspace of all threads."""
        size = self.library.hept_count_workspace(self._shape, is_backward)
        return torch.empty(self._n_threads * size, dtype=torch.float32)


_attend = define_attention("native_attention", compute_forward, compute_backward)
