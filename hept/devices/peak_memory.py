"""Peak memory of a function call, relative to the memory before it."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable

import psutil
import torch

SECONDS_BETWEEN_LOOKS = 0.001


def peak_gigabytes(work: Callable[[], object], device: torch.device) -> float:
    """Run `work` and return its peak memory."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return float(torch.cuda.max_memory_allocated(device) - before) / 1e9
    done = threading.Event()
    _give_back()
    before = _resident()
    peak = [before]

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], _resident())
            done.wait(SECONDS_BETWEEN_LOOKS)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        work()
    finally:
        peak[0] = max(peak[0], _resident())
        done.set()
        watcher.join()
    return (peak[0] - before) / 1e9


def available_gigabytes() -> float:
    """Available memory of the system."""
    return float(psutil.virtual_memory().available) / 1e9


def _give_back() -> None:
    """Return freed memory to the system: memory reused by the allocator would not be counted."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return


def _resident() -> int:
    return int(psutil.Process().memory_info().rss)
