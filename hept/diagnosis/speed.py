"""Times and memory of the parts of a training step, ours and the authors' procedure in turns.

"backward" is the backward pass of the model; "loss" the loss and its gradient; "step" all of it, with Adam.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hepdata.loader.dataset import open_dataset
from hept.devices.clock import time_in_turns
from hept.devices.peak_memory import available_gigabytes, peak_gigabytes
from hept.diagnosis.made_up_event import N_NEGATIVES, Event, draw_event, write_events
from hept.diagnosis.verdict import Verdict, judge, judge_speed
from hept.losses import RandomNegatives, info_nce
from hept.model.transformer import HEPT
from hept.paper import literal_model
from hept.paper.literal_loss import literal_info_nce

SIZES = (6_000, 60_000, 2**18)
# Of a training step by the authors' procedure: kernel matrices of all blocks, and all pairs at once.
LITERAL_BYTES_A_POINT = 300_000
PARTS = ("forward", "backward", "loss", "step")
N_LOADED = 3


@dataclass(frozen=True)
class Parts:
    """The pieces of one training step, and what has to be there before the backward pass."""

    prepare: Callable[[], object]
    forward: Callable[[], object]
    backward: Callable[[], object]
    loss: Callable[[], object]
    step: Callable[[], object]


def measure_speed(device: torch.device, n_points: int, *, repeats: int) -> Iterator[Verdict]:
    """Verdicts on times and memory at one size; ours should be the faster and the smaller."""
    event = draw_event(n_points).to(device)
    ours = make_ours(event, device)
    title = f"{n_points:,} points"
    needed, free = LITERAL_BYTES_A_POINT * n_points / 1e9, _free_gigabytes(device)
    if needed > free:
        yield _tell_alone(f"times, {title}", ours, device, repeats, needed)
        return
    literal = make_literal(event, device)
    works = {
        f"{part}, {whose}": getattr(parts, part)
        for part in PARTS
        for whose, parts in (("ours", ours), ("literal", literal))
    }
    before = {"backward, ours": ours.prepare, "backward, literal": literal.prepare}
    seconds = time_in_turns(works, device, repeats=repeats, before=before)
    yield _compare_times(f"times, {title}", {name: 1e3 * value for name, value in seconds.items()})
    memory = {
        f"{part}, {whose}": peak_gigabytes(getattr(parts, part), device)
        for part in ("forward", "step")
        for whose, parts in (("ours", ours), ("literal", literal))
    }
    text = ", ".join(_say(part, memory, "GB") for part in ("forward", "step"))
    is_small = memory["step, ours"] <= memory["step, literal"]
    yield judge_speed(f"memory, {title}", is_small, text, memory)


def measure_loader(folder: Path, n_points: int) -> Iterator[Verdict]:
    """How long a training waits for a cloud with its pairs, read by two workers."""
    dataset = open_dataset(write_events(folder / f"points-{n_points}", n_points, {"train": N_LOADED}))
    loader = dataset["train"].loader(1, workers=2, pairs=True)
    list(loader)
    begun = time.perf_counter()
    n_pairs = sum(batch.negatives.n_pairs for batch in loader if batch.negatives is not None)
    milliseconds = 1e3 * (time.perf_counter() - begun) / N_LOADED
    # Some points have fewer than 256: those at the ends of the axis, and those inside a dense particle.
    is_whole = n_pairs > 0.8 * N_NEGATIVES * n_points * N_LOADED
    text = f"{milliseconds:.3g} ms a cloud with {n_pairs // N_LOADED:,} negative pairs"
    yield judge(f"loader, {n_points:,} points", is_whole, text, {"ms a cloud": milliseconds})


def make_ours(event: Event, device: torch.device) -> Parts:
    """Our model and loss."""
    torch.manual_seed(0)
    model = HEPT(15, 6, 12).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def forward() -> Tensor:
        out: Tensor = model(event.features, event.coords, event.offsets)
        return out

    def compute_loss(out: Tensor) -> Tensor:
        negatives = RandomNegatives(0.2, event.offsets, torch.Generator().manual_seed(0), seed=0)
        lists = event.positives, event.negatives, event.particle, event.particle > 0
        return info_nce(out, *lists, random_negatives=negatives)

    return _make_parts(forward, compute_loss, optimizer)


def make_literal(event: Event, device: torch.device) -> Parts:
    """The authors' model and loss, step by step."""
    state = {name: each.to(device) for name, each in literal_model.draw_state().items()}
    trained = [each.requires_grad_() for name, each in state.items() if name != "regions"]
    optimizer = torch.optim.Adam(trained, lr=1e-3)
    pairs = torch.cat([event.positives.as_edges(), event.negatives.as_edges()], 1)

    def forward() -> Tensor:
        return literal_model.forward(state, event.features, event.coords)

    def compute_loss(out: Tensor) -> Tensor:
        return literal_info_nce(out, pairs, event.particle, event.particle > 0)

    return _make_parts(forward, compute_loss, optimizer)


def _make_parts(
    forward: Callable[[], Tensor], compute_loss: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer
) -> Parts:
    kept: dict[str, Tensor] = {}

    def infer() -> None:
        with torch.no_grad():
            kept["embedding"] = forward()

    def lose() -> None:
        compute_loss(kept["embedding"].detach().requires_grad_()).backward()  # type: ignore[no-untyped-call]

    def prepare() -> None:
        kept["out"] = forward()

    def differentiate() -> None:
        kept.pop("out").square().mean().backward()  # type: ignore[no-untyped-call]

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        compute_loss(forward()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return Parts(prepare, infer, differentiate, lose, step)


def _compare_times(name: str, milliseconds: dict[str, float]) -> Verdict:
    text = ", ".join(_say(part, milliseconds, "ms") for part in PARTS)
    is_fast = all(
        milliseconds[f"{part}, ours"] <= milliseconds[f"{part}, literal"] for part in ("forward", "step")
    )
    return judge_speed(name, is_fast, text, milliseconds)


def _say(part: str, figures: dict[str, float], unit: str) -> str:
    ours, literal = figures[f"{part}, ours"], figures[f"{part}, literal"]
    return f"{part} {_round(ours)} {unit} (literal {_round(literal)})"


def _round(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _tell_alone(name: str, ours: Parts, device: torch.device, repeats: int, needed: float) -> Verdict:
    works = {part: getattr(ours, part) for part in PARTS}
    before = {"backward": ours.prepare}
    seconds = time_in_turns(works, device, repeats=repeats, before=before)
    figures = {f"{part}, ours": 1e3 * value for part, value in seconds.items()}
    figures["step, GB"] = peak_gigabytes(ours.step, device)
    text = ", ".join(f"{part} {_round(figures[f'{part}, ours'])} ms" for part in works)
    return judge(name, True, f"{text}; the literal model would need {needed:.0f} GB", figures)


def _free_gigabytes(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 1e9
    return available_gigabytes()
