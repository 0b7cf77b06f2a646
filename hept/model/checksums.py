"""The checksum of a weights file: tensors and their description enter, a digest leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def digest_weights(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 of names, types, shapes and bytes of `tensors`, and of `text`.

    It covers the content, not the file: other tools may write the same tensors in another order.
    """
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
