"""Tensors that report a GPU as their device and compute on the CPU: they count how often the host waits.

For code whose sizes depend on values, which fake tensors do not have. Needs `stand_in` where there is no GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

GPU = torch.device("cuda", 0)
_aten = torch.ops.aten
# The host waits for a value or for a size.
_WAITS = {
    _aten._local_scalar_dense,
    _aten.nonzero,
    _aten._unique2,
    _aten.masked_select,
    _aten.repeat_interleave,
}


class OnGPU(Tensor):
    """A tensor whose device is a GPU; `inner` has its values."""

    inner: Tensor

    @staticmethod
    def __new__(cls: type[OnGPU], inner: Tensor) -> OnGPU:
        """A GPU's view of a tensor."""
        made: OnGPU = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=GPU
        )
        made.inner = inner
        return made

    def tolist(self) -> Any:
        """The values, fetched by the host; torch's own method takes no subclass."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Compute on the CPU; what has gone to the host is a plain tensor from then on."""
        kwargs = dict(kwargs or {})
        return run(func, args, kwargs, has_gpu=True)


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_gpu: bool) -> Any:
    """One operator on the inner tensors."""
    asked = kwargs.get("device")
    if asked is not None:
        has_gpu = torch.device(asked).type == "cuda"
        kwargs["device"] = torch.device("cpu")
    before = _list_ids(args, kwargs)
    args, kwargs = tree_map_only(OnGPU, lambda each: each.inner, (args, kwargs))
    out = func(*args, **kwargs)
    if not has_gpu:
        return out
    # Operators in place return their argument itself.
    return tree_map_only(Tensor, lambda each: before[id(each)] if id(each) in before else OnGPU(each), out)


def _list_ids(args: Any, kwargs: Any) -> dict[int, OnGPU]:
    found: dict[int, OnGPU] = {}
    tree_map_only(OnGPU, lambda each: found.setdefault(id(each.inner), each), (args, kwargs))
    return found


class WaitCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts how often the host waits for a GPU, and makes tensors that are asked for on one.

    Attributes:
        waits: By operator.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, and count it."""
        kwargs, packet = dict(kwargs or {}), func.overloadpacket
        tensors = [
            each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)
        ]
        is_here = any(isinstance(each, OnGPU) for each in tensors)
        asked = kwargs.get("device")
        is_fetched = is_here and asked is not None and torch.device(asked).type == "cpu"
        by_mask = packet in (_aten.index, _aten.index_put_) and any(
            each.dtype == torch.bool for each in tensors[1:]
        )
        if is_here and (is_fetched or by_mask or packet in _WAITS):
            self.waits[str(packet)] += 1
        if is_here:
            return func(*args, **kwargs)
        return run(func, args, kwargs, has_gpu=False)


@contextmanager
def counted_waits() -> Iterator[Counter[str]]:
    """Count the host's waits in the block."""
    initialise = torch.cuda._lazy_init
    if not torch.cuda.is_initialized():
        # The stand-in has nothing to initialise.
        torch.cuda._lazy_init = lambda: None
    try:
        with WaitCounter() as counter:
            yield counter.waits
    finally:
        torch.cuda._lazy_init = initialise
