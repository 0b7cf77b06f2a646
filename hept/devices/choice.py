"""Where a model runs: what the user wrote as `device` enters, a torch device leaves.

One spelling serves every command: cpu, cuda, cuda:1, mps, or auto, which takes a GPU if there is one. Torch
takes seconds to import, so the spelling is checked without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from hepdata.errors import InputError

if TYPE_CHECKING:
    import torch

Precision = Literal["32-true", "64-true", "bf16-mixed", "16-mixed"]
DEVICES = "auto, cpu, cuda, cuda:1, mps"
_SPELLING = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


def check_device(text: str) -> str:
    """Return `text` if it names a device.

    Raises:
        InputError: It does not.
    """
    if not _SPELLING.fullmatch(text):
        raise InputError(
            f"`device={text!r}`",
            found="no name of a device",
            expected=f"one of {DEVICES}",
            remedy="leave it out to take a GPU if there is one",
        )
    return text


def choose_device(text: str = "auto") -> torch.device:
    """The device that `text` names, if this machine has it; "auto" takes the first GPU, or the CPU.

    Raises:
        InputError: No name of a device, or one that is not there.
    """
    import torch

    check_device(text)
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = torch.backends.mps.is_available()
    if text == "auto":
        return torch.device("cuda" if n_gpus else "mps" if has_mps else "cpu")
    device = torch.device(text)
    if device.type == "cuda" and (device.index or 0) >= n_gpus:
        raise _missing(f"`device={text!r}`", _describe_gpus(n_gpus))
    if device.type == "mps" and not has_mps:
        raise _missing(f"`device={text!r}`", "no Apple GPU that torch can use")
    return device


def check_count(device: torch.device, n_devices: int) -> None:
    """Check that a node has enough devices of this kind; a CPU serves any number of processes.

    Raises:
        InputError: It has fewer, or one of several was named.
    """
    import torch

    if n_devices == 1 or device.type == "cpu":
        return
    if str(device) == "cuda":
        n_gpus = torch.cuda.device_count()
        if n_devices > n_gpus:
            raise _missing(f"`devices={n_devices}`", _describe_gpus(n_gpus))
        return
    raise InputError(
        f"`device='{device}'`",
        found=f"`devices={n_devices}` together with it",
        expected="a kind of device of which there are several",
        remedy="use `device='cuda'` for several GPUs, or `devices=1`",
    )


def _missing(where: str, found: str) -> InputError:
    return InputError(
        where,
        found=found,
        expected="what was asked for, and a build of torch for it",
        remedy="use `device='auto'`, which takes what there is",
    )


def _describe_gpus(n_gpus: int) -> str:
    if n_gpus == 0:
        return "no GPU that torch can use"
    return "one GPU, cuda:0" if n_gpus == 1 else f"{n_gpus} GPUs, cuda:0 to cuda:{n_gpus - 1}"
