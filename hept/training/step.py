"""One optimiser step: batches enter, the weights change, and losses and the norm of the gradient leave.

All of it is queued on the device, and the host reads nothing: `Training` reads the figures of a step when the
next one is queued.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from hepdata.loader.batch import Batch
from hept.objectives.objective import Objective

# float16 ends at 65,504: losses are scaled up so that small gradients do not vanish, and the scale is halved
# after an overflow. Starting from 2¹⁶, this many in a row mean that the gradient itself is infinite.
OVERFLOWS_IN_A_ROW = 30


@dataclass
class OptimiserStep:
    """A step over the batches of a window and of all processes, as if they were one batch.

    Attributes:
        fabric: The processes.
        model: The network as the processes share it.
        network: Whose parameters are trained.
        optimizer: Changes them.
        objective: Its loss is minimised.
        device: Where all of it happens.
        is_scaled: Whether losses are scaled, as float16 needs.
        clip_norm: Largest norm of the gradient.
        scaler: Of losses; its state belongs to the run.
    """

    fabric: Fabric
    model: Any
    network: nn.Module
    optimizer: Optimizer
    objective: Objective
    device: torch.device
    is_scaled: bool = False
    clip_norm: float | None = None
    scaler: torch.amp.GradScaler = field(init=False)

    def __post_init__(self) -> None:
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.is_scaled)

    def __call__(self, window: list[Batch], rate: float, generator: torch.Generator) -> Tensor:
        """Make the step; with float16 it is skipped if the gradient overflows.

        Args:
            window: Batches on the device.
            rate: The learning rate.
            generator: Of random negatives.

        Returns:
            On the device: each batch's share of the loss, then the norm of the gradient.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        counts = [self.objective.count(batch) for batch in window]
        n_counted = self._sum_over_processes(torch.stack(counts).sum()).clamp(min=1)
        shares = []
        for position, batch in enumerate(window):
            with self.fabric.no_backward_sync(self.model, enabled=position + 1 < len(window)):
                out = self.model(batch.features, batch.coords, batch.offsets)
                share = self.objective.loss(out, batch, normaliser=n_counted, generator=generator)
                # DDP averages over processes; the loss is the sum of the shares.
                self.scaler.scale(share * self.fabric.world_size).backward()  # type: ignore[no-untyped-call]
            shares.append(share.detach())
        # Clip the unscaled gradient.
        self.scaler.unscale_(self.optimizer)
        limit = self.clip_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return torch.stack([*shares, norm.to(shares[0].dtype)])

    def _sum_over_processes(self, value: Tensor) -> Tensor:
        if self.fabric.world_size == 1:
            return value
        total: Any = self.fabric.all_reduce(value, reduce_op="sum")
        return total  # type: ignore[no-any-return]
