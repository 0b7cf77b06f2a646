"""Asynchronous copies: batches to the device while it computes, figures back to the host later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from hepdata.loader.batch import Batch


def move_batches(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches on a device; numbers of events and sectors stay on the host, for messages.

    A GPU copies from page-locked memory on a stream of its own: while it works on what is queued, the next
    batch arrives.
    """
    if device.type != "cuda" or not torch.cuda.is_available():
        for batch in batches:
            yield _move(batch, device)
        return
    beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    for batch in batches:
        with torch.cuda.stream(beside):
            moved = _move(batch, device)
        current = torch.cuda.current_stream(device)
        current.wait_stream(beside)
        for tensor in _list_tensors(moved):
            if tensor.device.type == "cuda":
                # The memory is free for other batches only when the current stream is done with it.
                tensor.record_stream(current)
        yield moved


def _move(batch: Batch, device: torch.device) -> Batch:
    moved = batch.to(device, non_blocking=True)
    return replace(moved, event_id=batch.event_id, sector=batch.sector)


def _list_tensors(batch: Batch) -> list[Tensor]:
    pairs = [each for each in (batch.positives, batch.negatives) if each is not None]
    fields = [vars(batch), *(vars(each) for each in pairs)]
    return [each for each in tree_leaves(fields) if isinstance(each, Tensor)]


class HostCopy:
    """Values on their way from a device to the host: `read` waits for them alone, not for later work."""

    def __init__(self, values: Tensor) -> None:
        self._values, self._event = values, None
        if values.device.type == "cuda" and torch.cuda.is_available():
            self._values = values.to("cpu", non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()

    def read(self) -> Tensor:
        """The values on the host, in float64."""
        if self._event is not None:
            self._event.synchronize()
        return self._values.cpu().double()
