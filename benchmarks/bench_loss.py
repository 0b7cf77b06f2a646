"""InfoNCE forward and backward at the size of Tracking-6k against the literal procedure.

Time, peak memory and agreement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.memory import added_bytes
from benchmarks.ratio import Ratio, seconds
from hepdata.features.curve import curve_order
from hepdata.loader.batch import PairTensors
from hepdata.pairs.published_definition import pair_published
from hepdata.simulate.detector import build_detector
from hepdata.simulate.tracking import simulate_event
from hept.losses import info_nce
from hept.paper.literal_loss import literal_info_nce

N_HITS = 6_600
# These give as many pairs as the published 256 neighbours within 1 in real events, which are denser.
N_NEIGHBORS, RADIUS = 468, 1.06


@dataclass(frozen=True)
class Inputs:
    """A simulated event with its pairs in both layouts, and embeddings as of a partly trained model."""

    x: Tensor
    positives: PairTensors
    negatives: PairTensors
    pairs: Tensor
    particle: Tensor
    is_anchor: Tensor


def make_inputs() -> Inputs:
    """One event of `N_HITS` hits along the curve, with the published pairs."""
    event = simulate_event(1, N_HITS, 0, build_detector())
    hits, truth = event.hits, event.truth
    x, y, z = (np.asarray(hits[name], dtype=np.float64) for name in ("x", "y", "z"))
    eta, phi = np.arcsinh(z / np.hypot(x, y)), np.arctan2(y, x)
    order = curve_order(eta, phi)
    eta, phi = eta[order].astype(np.float32), phi[order].astype(np.float32)
    particle = np.asarray(truth["particle_id"])[order]
    pt = np.hypot(np.asarray(truth["tpx"]), np.asarray(truth["tpy"]))[order]
    positives, negatives = pair_published(eta, phi, particle, N_NEIGHBORS, RADIUS)
    rng = np.random.default_rng(0)
    _, number = np.unique(particle, return_inverse=True)
    centre = rng.normal(0, 0.5, (number.max() + 1, 12))
    embeddings = centre[number] + rng.normal(0, 0.15, (len(particle), 12))
    rows = [
        PairTensors(torch.from_numpy(p.ptr).long(), torch.from_numpy(p.idx)) for p in (positives, negatives)
    ]
    return Inputs(
        torch.from_numpy(embeddings).float(),
        *rows,
        torch.cat([row.as_edges() for row in rows], dim=1),
        torch.from_numpy(number),
        torch.from_numpy((pt > 0.9) & (particle > 0)),
    )


def ours(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Loss and gradient by the package."""
    x = inputs.x.clone().requires_grad_()
    loss = info_nce(x, inputs.positives, inputs.negatives, inputs.particle, inputs.is_anchor)
    return loss.detach(), torch.autograd.grad(loss, x)[0]


def theirs(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Loss and gradient by the literal procedure."""
    x = inputs.x.clone().requires_grad_()
    loss = literal_info_nce(x, inputs.pairs, inputs.particle, inputs.is_anchor)
    return loss.detach(), torch.autograd.grad(loss, x)[0]


def prepare_ours() -> Callable[[], object]:
    """Our side, for the measurement of memory."""
    inputs = make_inputs()
    return lambda: ours(inputs)


def prepare_theirs() -> Callable[[], object]:
    """The literal procedure, for the measurement of memory."""
    inputs = make_inputs()
    return lambda: theirs(inputs)


def run() -> list[Ratio]:
    """Time, memory and agreement."""
    inputs = make_inputs()
    n_pairs = inputs.pairs.shape[1]
    exact = Inputs(inputs.x.double(), *[getattr(inputs, name) for name in list(vars(inputs))[1:]])
    (value, gradient), (expected, expected_gradient) = ours(inputs), theirs(exact)
    fast, slow = seconds(lambda: ours(inputs)), seconds(lambda: theirs(inputs))
    small, large = added_bytes(prepare_ours), added_bytes(prepare_theirs)
    size = f"{len(inputs.x):,} points, {n_pairs / 1e6:.1f} M pairs"
    gradient_error = float((gradient - expected_gradient).norm() / expected_gradient.norm())
    return [
        Ratio(
            f"InfoNCE forward + backward, literal / ours ({size})",
            slow / fast,
            5.0,
            "at least",
            f"{slow:.3f} s / {fast:.3f} s; {int(inputs.is_anchor.sum()):,} anchors above 0.9 GeV",
        ),
        Ratio(
            "InfoNCE peak memory, ours / literal",
            small / large,
            0.2,
            "at most",
            f"{small / 1e6:.0f} MB / {large / 1e6:.0f} MB",
        ),
        Ratio(
            "InfoNCE value, float32 against float64 literal: difference",
            abs(float(value) - float(expected)),
            1e-6,
            "at most",
            f"{float(value):.8f} / {float(expected):.8f}",
        ),
        Ratio(
            "InfoNCE gradient, relative difference",
            gradient_error,
            1e-5,
            "at most",
            f"norm {float(expected_gradient.norm()):.4g}",
        ),
    ]
