"""Reproducibility of training steps on a generated event, and the effect of half precision on their loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hept.devices.choice import Precision
from hept.devices.precision import mixed_precision
from hept.diagnosis.made_up_event import Event, draw_event
from hept.diagnosis.verdict import Verdict, compare_losses, judge
from hept.losses import RandomNegatives, info_nce
from hept.model.transformer import HEPT

N_STEPS = 4
N_POINTS = 1500
# Largest relative difference of the loss in half precision.
MOST_HALF = 0.02


def check_steps(device: torch.device) -> Iterator[Verdict]:
    """Equal steps have equal losses; losses in half precision are those of float32."""
    event = draw_event(N_POINTS).to(device)
    yield _check_determinism(event, device)
    plain = train(event, device)
    precisions: tuple[Precision, ...] = ("bf16-mixed", "16-mixed")
    for precision in precisions:
        yield _check_half(precision, plain, train(event, device, precision=precision))


def train(event: Event, device: torch.device, *, precision: Precision = "32-true") -> list[float]:
    """The losses of a few steps from the same weights."""
    torch.manual_seed(0)
    model = HEPT(15, 6, 12, dropout=0.0).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    # Small enough for the first step: one that overflowed would be left out, and the losses differ.
    scaler = torch.amp.GradScaler(device.type, init_scale=2.0**8, enabled=precision == "16-mixed")
    losses = []
    for step in range(N_STEPS):
        with mixed_precision(device, precision):
            out = model(event.features, event.coords, event.offsets)
        generator = torch.Generator().manual_seed(step)
        loss = info_nce(
            out,
            event.positives,
            event.negatives,
            event.particle,
            event.particle > 0,
            random_negatives=RandomNegatives(0.2, event.offsets, generator, seed=step),
        )
        optimizer.zero_grad()
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return [float(loss) for loss in losses]


def _check_determinism(event: Event, device: torch.device) -> Verdict:
    try:
        with _deterministic():
            first, second = train(event, device), train(event, device)
    except RuntimeError as error:
        # The error of torch names the operator.
        return judge("determinism", False, " ".join(str(error).split())[:200])
    text = f"losses of {N_STEPS} steps, twice: {first[-1]:.9g} and {second[-1]:.9g}"
    figures: dict[str, float | str] = {f"step {i + 1}": loss for i, loss in enumerate(first)}
    figures |= {f"step {i + 1} again": loss for i, loss in enumerate(second)}
    return judge("determinism", first == second, text, figures)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Only operators that give the same result each time; others raise."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _check_half(name: str, plain: list[float], half: list[float]) -> Verdict:
    error = compare_losses(half, plain)
    text = f"loss off by {100 * error:.2g} % at most in {N_STEPS} steps, {half[-1]:.4g} for {plain[-1]:.4g}"
    return judge(f"half precision, {name}", error < MOST_HALF, text, {"error": error})
