"""Optimisers by name: a network and settings enter, an optimiser leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Adam, AdamW, Optimizer

from hepdata.errors import InputError
from hept.settings.train_config import OptimizerConfig


class MuonAndAdamW(Optimizer):
    """Muon for matrices and AdamW for all other parameters, as one optimiser with two groups.

    Muon takes the rate that AdamW would need: its updates are scaled to the same root mean square.

    Args:
        parameters: Of a network.
        lr: Learning rate of both.
        weight_decay: Decoupled, of both.
        fused: Whether AdamW runs in one kernel.
    """

    def __init__(
        self, parameters: list[nn.Parameter], *, lr: float, weight_decay: float, fused: bool | None
    ) -> None:
        super().__init__(parameters, {})
        matrices = [each for each in parameters if each.ndim == 2]
        others = [each for each in parameters if each.ndim != 2]
        self.parts: list[Optimizer] = []
        if matrices:
            make_muon: Any = torch.optim.Muon
            self.parts.append(
                make_muon(matrices, lr=lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
            )
        if others:
            self.parts.append(AdamW(others, lr=lr, weight_decay=weight_decay, fused=fused))
        self._join_groups()

    def _join_groups(self) -> None:
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of both optimisers."""
        if closure is not None:
            raise ValueError("closure: got a function, need None")
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """The states of both optimisers."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states that `state_dict` returned."""
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        # Each part has made new groups.
        self._join_groups()


def make_optimizer(network: nn.Module, settings: OptimizerConfig) -> Optimizer:
    """The optimiser of these settings; on a GPU Adam runs in one kernel, without asking the host.

    Raises:
        InputError: This version of torch does not have it.
    """
    parameters = list(network.parameters())
    is_fused = (bool(parameters) and parameters[0].device.type == "cuda") or None
    lr, weight_decay = settings.lr, settings.weight_decay
    if settings.kind == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise InputError(
                "optimizer.kind=muon",
                found=f"torch {torch.__version__}",
                expected="torch 2.9 or newer, which has Muon",
                remedy="pip install --upgrade torch, or set optimizer.kind=adamw",
            )
        return MuonAndAdamW(parameters, lr=lr, weight_decay=weight_decay, fused=is_fused)
    kind = AdamW if settings.kind == "adamw" else Adam
    return kind(parameters, lr=lr, weight_decay=weight_decay, fused=is_fused)
