"""Out of memory as one line: exceptions of torch and numpy enter, a `JobError` leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hepdata.errors import JobError

# The CPU allocator of torch raises plain RuntimeErrors.
_CPU_MESSAGES = (
    "can't allocate memory",
    "not enough memory",
    "Storage size calculation overflowed",
    "bad_alloc",
)
_AMOUNTS = (
    r"[Tt]ried to allocate (?P<bytes>\d+) bytes",
    r"[Tt]ried to allocate (?P<text>[\d.]+ \w+)",
    r"Unable to allocate (?P<text>[\d.]+ \w+)",
)
_CAPACITY = (
    r"(?P<device>GPU \d+) has a total capacity of (?P<total>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free"
)
TRAINING_REMEDY = (
    "lower batch_points or batch_size (accumulate keeps the size of a step), model.hidden_dim, "
    "model.n_heads or model.n_tables, or set checkpoint_activations=true"
)
EVALUATION_REMEDY = (
    "evaluate smaller clouds, for instance sectors of events, or use a machine with more memory"
)


@contextmanager
def memory_errors(where: object, *, remedy: str = EVALUATION_REMEDY) -> Iterator[None]:
    """Turn a failed allocation in the block into a one-line error.

    Raises:
        JobError: Not enough memory, on a CPU or a GPU.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        text = " ".join(str(error).split())
        is_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not is_memory and not any(message in text for message in _CPU_MESSAGES):
            raise
        capacity = re.search(_CAPACITY, text)
        raise JobError(
            where,
            found=f"not enough memory{_describe_amount(text)}",
            expected=f"a job that fits into {_describe_capacity(capacity)}",
            remedy=remedy,
        ) from error


def _describe_amount(text: str) -> str:
    for pattern in _AMOUNTS:
        found = re.search(pattern, text)
        if found:
            parts = found.groupdict()
            amount = parts.get("text") or f"{int(parts['bytes']) / 2**30:,.3g} GiB"
            return f" for {amount} more"
    return ""


def _describe_capacity(found: re.Match[str] | None) -> str:
    if found is None:
        return "the memory of this machine"
    return f"{found['device']} ({found['total']}, of which {found['free']} is free)"
