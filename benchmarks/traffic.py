"""Count what a computation costs a GPU besides arithmetic: launches, bytes, synchronisations and memory.

Nothing is computed: with fake tensors the counter sees the operators that a GPU would run. An operator counts
as one launch that reads its inputs and writes its outputs; views count as none. The operators of our Triton
kernels have formulas of their own, at the end.

Axes of the formulas: H heads, M dimensions of a query, V of a value, P coordinates, N points, D dimensions.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hept.attention.kernels import triton as triton
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.operators import unpack
from hept.attention.kernels.triton_launch import Sizes
from hept.losses.fused import find_dtype
from hept.model.activation import count_programs


@dataclass(frozen=True)
class Traffic:
    """Kernels that an operator launches, and bytes that they read and write."""

    n_launches: int
    n_bytes: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.n_launches + other.n_launches, self.n_bytes + other.n_bytes)


F = TypeVar("F", bound=Callable[..., Traffic])
_FORMULAS: dict[Any, Callable[..., Traffic]] = {}
# These read only the selected elements of their first input.
_LOOK_UPS = {
    torch.ops.aten.gather,
    torch.ops.aten.index_select,
    torch.ops.aten.embedding,
    torch.ops.aten.index,
    torch.ops.aten.take,
}
# Operators after which the host waits for a value or a size.
_WAITS = {torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero, torch.ops.aten._unique2}
_COPIES = {torch.ops.aten._to_copy, torch.ops.aten.copy_}
_ALLOCATIONS = {
    torch.ops.aten.empty,
    torch.ops.aten.empty_like,
    torch.ops.aten.empty_strided,
    torch.ops.aten.new_empty,
    torch.ops.aten.new_empty_strided,
}


def register_traffic(operator: Any) -> Callable[[F], F]:
    """Register a function of the operator's arguments that computes its cost.

    Args:
        operator: Such as `torch.ops.hept.triton_attention`.
    """

    def register(formula: F) -> F:
        _FORMULAS[operator] = formula
        return formula

    return register


class TrafficCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts all operators that are dispatched within the context.

    Args:
        device: Type of the device whose operators are counted.

    Attributes:
        n_launches: Kernels launched.
        n_bytes: Bytes read and written.
        n_waits: How often the host waited for the device.
        live: Current size in bytes of the tensors allocated within the context.
        peak: Peak size in bytes of the tensors allocated within the context.
        by_operator: The traffic of each operator.
    """

    def __init__(self, device: str = "cuda") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = device
        self.n_launches = self.n_bytes = self.n_waits = self.peak = 0
        self.by_operator: dict[str, Traffic] = {}
        self.live = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, and count it."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        inputs = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        outputs = [each for each in tree_leaves(out) if isinstance(each, Tensor)]
        is_here = any(each.device.type == self.device for each in (*inputs, *outputs))
        # Operators of `prim` only query properties of tensors.
        if not is_here or func.namespace == "prim":
            return out
        self.n_waits += self._makes_wait(func, inputs, outputs, kwargs)
        for tensor in outputs:
            self._watch(tensor)
        traffic = _measure(func, args, kwargs, inputs, outputs)
        self.n_launches += traffic.n_launches
        self.n_bytes += traffic.n_bytes
        name = str(func.overloadpacket)
        self.by_operator[name] = self.by_operator.get(name, Traffic(0, 0)) + traffic
        return out

    def _makes_wait(
        self, func: Any, inputs: list[Tensor], outputs: list[Tensor], kwargs: dict[str, Any]
    ) -> bool:
        devices = {each.device.type for each in inputs}, {each.device.type for each in outputs}
        to_host = self.device != "cpu" and self.device in devices[0] and "cpu" in devices[1]
        # Torch waits for the end of a copy from the host, unless told that the memory stays as it is.
        is_copy = func.overloadpacket in _COPIES and "cpu" in devices[0] and self.device in devices[1]
        from_host = is_copy and self.device != "cpu" and not kwargs.get("non_blocking")
        by_mask = func.overloadpacket is torch.ops.aten.index and any(
            each.dtype == torch.bool for each in inputs[1:]
        )
        return to_host or from_host or by_mask or func.overloadpacket in _WAITS

    def _watch(self, tensor: Tensor) -> None:
        """Count the memory of a new tensor until it is freed."""
        storage = tensor.untyped_storage()
        if tensor.device.type != self.device or storage._cdata in self._known:
            return
        key, size = storage._cdata, storage.nbytes()
        self._known.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size


def _measure(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Tensor], outputs: list[Tensor]
) -> Traffic:
    packet = func.overloadpacket
    if packet in _FORMULAS:
        return _FORMULAS[packet](*args, **kwargs)
    if packet in _ALLOCATIONS or _is_view(func, inputs, outputs):
        return Traffic(0, 0)
    if packet in _LOOK_UPS:
        _looked_in, *indices = inputs
        return Traffic(1, sum(map(_count_bytes, indices)) + 2 * sum(map(_count_bytes, outputs)))
    return Traffic(1, sum(map(_count_bytes, (*inputs, *outputs))))


def _is_view(func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> bool:
    """Whether the outputs are views of the inputs."""
    if any(each.alias_info is not None and each.alias_info.is_write for each in func._schema.arguments):
        return False
    own = {each.untyped_storage()._cdata for each in inputs}
    return bool(outputs) and all(each.untyped_storage()._cdata in own for each in outputs)


def _count_bytes(tensor: Tensor) -> int:
    """Bytes of the elements with distinct addresses: an expanded axis counts once."""
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return math.prod(sizes) * tensor.element_size() if tensor.numel() else 0


@register_traffic(torch.ops.hept.triton_attention)
def count_attention(*inputs: Tensor) -> Traffic:
    """Launches and bytes of the forward pass; see `count_rows` for what is counted."""
    operands, layout = unpack(inputs)
    sizes, n_tables = Sizes.of(operands, layout), layout.n_tables
    row = count_rows(sizes, layout, mine=sizes.M + sizes.P, others=sizes.M + sizes.V + sizes.P)
    left = sizes.V + 1
    moved = n_tables * (row + _count_numbers(operands, left)) + (n_tables - 1) * _count_numbers(
        operands, left
    )
    return Traffic(n_tables, moved)


@register_traffic(torch.ops.hept.triton_attention_backward)
def count_attention_backward(grad: Tensor, _out: Tensor, _total: Tensor, *inputs: Tensor) -> Traffic:
    """Launches and bytes of the backward pass."""
    operands, layout = unpack(inputs)
    sizes, n_tables = Sizes.of(operands, layout), layout.n_tables
    m, v, p = sizes.M, sizes.V, sizes.P
    # Queries with the gradient, its normalisation and that of the normalisation; keys and values.
    read = count_rows(sizes, layout, mine=m + p + v + 2, others=m + v + p)
    # Every table writes all gradients, and reads first what the table before has written.
    left = _count_numbers(operands, m + p + m + v + p)
    start = _count_numbers(operands, 2 * v + 2)
    traffic = Traffic(1 + n_tables, start + n_tables * (read + left) + (n_tables - 1) * left)
    traffic += _count_copy(grad.movedim(0, 1))
    if operands.coords is not None:
        traffic += Traffic(1, _count_numbers(operands, 3 * p))
    return traffic


def count_rows(sizes: Sizes, layout: Layout, *, mine: int, others: int) -> int:
    """Bytes that the programs of one table read: their own rows and those on the other side of the block.

    The programs of a block run concurrently: each number is read from memory once; further reads are cached.

    Args:
        sizes: Sizes of the attention.
        layout: Blocks and orders.
        mine: Numbers per row that a program owns.
        others: Numbers per row on the other side.
    """
    orders = layout.query_order.element_size() + layout.key_order.element_size()
    # The first position of each block and `is_filled`; orders and operands of both sides.
    of_blocks = 8 * len(layout.blocks.position) + layout.blocks.is_filled.numel()
    return sizes.H * (of_blocks + layout.query_order.shape[-1] * (orders + 4 * (mine + others)))


def _count_numbers(operands: Operands, width: int) -> int:
    """Bytes of `width` numbers for each point and head."""
    return operands.query.shape[0] * operands.query.shape[1] * width * 4


def _count_copy(wanted: Tensor) -> Traffic:
    """Traffic of the copy that makes a tensor contiguous, if it is not."""
    if wanted.is_contiguous():
        return Traffic(0, 0)
    return Traffic(1, 2 * wanted.numel() * wanted.element_size())


@register_traffic(torch.ops.hept.triton_info_nce)
def count_loss(
    x: Tensor,
    _positive_ptr: Tensor,
    positive_idx: Tensor,
    _negative_ptr: Tensor,
    negative_idx: Tensor,
    particle: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    _seed: int,
    fraction: float,
    _tau: float,
    _published: bool,
    exact: bool,
) -> Traffic:
    """Upper bound of launches and bytes, with every point as an anchor: shapes do not give their number.

    A program reads each embedding once, and reads and writes a gradient for each pair.
    """
    n_points, dim = x.shape
    size = find_dtype(exact).itemsize
    row, gradient = 4 * dim, 2 * size * dim
    n_listed = len(positive_idx) + len(negative_idx)
    moved = n_listed * (positive_idx.element_size() + row + gradient)
    of_anchor = row + gradient + weight.element_size() + 4 + 2 * 8 * 2
    if offsets is not None:
        of_anchor += particle.element_size() + len(offsets) * 8
        moved += int(fraction * len(negative_idx)) * (particle.element_size() + row + gradient)
    clear = size * n_points * dim
    return Traffic(2, clear + moved + n_points * of_anchor)


@register_traffic(torch.ops.hept.triton_norm_tanh)
def count_activation(x: Tensor, *_: object) -> Traffic:
    """Launches and bytes: every program reads the three parameters."""
    return Traffic(1, (x.element_size() + 4) * x.numel() + 3 * 4 * x.shape[1] * count_programs(x))


@register_traffic(torch.ops.hept.triton_norm_tanh_backward)
def count_activation_backward(grad: Tensor, x: Tensor, *_: object) -> Traffic:
    """Launches and bytes: every program reads the three parameters and writes as many sums."""
    of_points = (grad.element_size() + 2 * x.element_size()) * x.numel()
    return Traffic(1, of_points + 2 * 3 * 4 * x.shape[1] * count_programs(x))
