"""Exponential moving average of the weights: smoother than the last step, at no cost of training."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MovingAverage:
    """The average of a network's parameters, by name.

    Args:
        network: Whose parameters.
        decay: What part of the old average each update keeps.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.values: dict[str, Tensor] = {
            name: parameter.detach().clone() for name, parameter in network.named_parameters()
        }

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Take in the parameters after a step."""
        parameters = dict(network.named_parameters())
        # One launch for all.
        torch._foreach_lerp_(
            [self.values[name] for name in parameters], list(parameters.values()), 1 - self.decay
        )

    def restore(self, saved: dict[str, Tensor]) -> None:
        """Take the averages of another run, to where these are."""
        self.values = {name: saved[name].to(value) for name, value in self.values.items()}

    @torch.no_grad()
    def swap_in(self, network: nn.Module) -> dict[str, Tensor]:
        """Give the network the averages; returns what it had."""
        kept = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
        self.swap_out(network, self.values)
        return kept

    @torch.no_grad()
    def swap_out(self, network: nn.Module, kept: dict[str, Tensor]) -> None:
        """Give the network back what `swap_in` returned."""
        for name, parameter in network.named_parameters():
            parameter.copy_(kept[name])
