"""Neighbour search of graph networks by tree against all distances; and HEPT against full attention."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from benchmarks.ratio import Ratio, seconds
from hept.attention.clouds import Clouds
from hept.model.frame import Frame
from hept.paper.systems.neighbors import find_neighbors
from hept.paper.systems.registry import build_model

N_POINTS = 10_000
# Full attention stores all pairs of eight heads: half a gigabyte here, three at 10,000 points.
N_ATTENDED = 4_000


def run() -> list[Ratio]:
    """Both ratios, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    plane = torch.rand(N_POINTS, 2, generator=generator) * torch.tensor([8.0, 2 * math.pi])
    clouds = Clouds.from_offsets(torch.tensor([0, N_POINTS]), N_POINTS)
    by_tree = seconds(lambda: find_neighbors(plane, clouds, 64, periods={1: 2 * math.pi}))
    by_distance = seconds(lambda: torch.cdist(plane, plane).topk(65, largest=False))
    frame = Frame(15, 6, 12, n_regions=15)
    features = torch.randn(N_ATTENDED, 15, generator=generator)
    coords = torch.cat([plane[:N_ATTENDED], torch.rand(N_ATTENDED, 4, generator=generator)], 1)
    times = {
        name: seconds(_inference(name, frame, features, coords), repeats=1) for name in ("hept", "exact")
    }
    return [
        Ratio(
            "systems: 64 neighbours of 10,000 points by tree, against all distances",
            by_distance / by_tree,
            3,
            "at least",
            f"{1000 * by_tree:.0f} ms against {1000 * by_distance:.0f} ms",
        ),
        Ratio(
            "systems: HEPT's inference on 4,000 points, against full attention",
            times["exact"] / times["hept"],
            3,
            "at least",
            f"{times['hept']:.2f} s against {times['exact']:.2f} s",
        ),
    ]


def _inference(name: str, frame: Frame, features: torch.Tensor, coords: torch.Tensor) -> Callable[[], None]:
    torch.manual_seed(0)
    model = build_model(name, frame).eval()

    def work() -> None:
        with torch.inference_mode():
            model(features, coords, torch.tensor([0, len(features)]))

    return work
