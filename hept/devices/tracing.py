"""Whether a model is being exported, where control flow must not depend on numbers of points and clouds."""

from __future__ import annotations

import torch


def is_exporting() -> bool:
    """Whether `torch.export` is tracing: a branch on a size would then be fixed in the program."""
    # Older versions of torch answer this question only together with that for `torch.compile`.
    ask = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return bool(ask())
