"""Numerical checks of the lemmas with random functions: each check compares a claim with a measurement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hept.paper.theory.draws import hash_points
from hept.paper.theory.lemmas import (
    bound_collision_probability,
    collision_probability,
    count_lsh_flops,
    count_rff_flops,
    rff_mean_squared_error,
)
from hept.paper.theory.square import gaussian


@dataclass(frozen=True)
class Check:
    """One claim.

    Attributes:
        claim: Statement of the paper.
        found: Result of the check, in words.
        holds: Whether they agree.
    """

    claim: str
    found: str
    holds: bool


def check_lemmas(seed: int = 0) -> list[Check]:
    """Check the collision probability, its bounds, the error of random features and the operations."""
    rng = np.random.default_rng(seed)
    return [
        _check_bounds(),
        _check_collisions(rng),
        _check_rff_error(rng),
        _check_rff_flops(),
        _check_lsh_flops(rng),
    ]


def _check_bounds() -> Check:
    ratios = np.concatenate([np.linspace(1e-4, 1, 20_000, endpoint=False), np.geomspace(1, 1e4, 20_000)])
    probability = collision_probability(ratios, 1.0)
    lower, upper = bound_collision_probability(ratios, 1.0)
    slack = min(float((probability - lower).min()), float((upper - probability).min()))
    return Check(
        claim="collision probability is between its bounds at all z/r",
        found=f"smallest distance to a bound {slack:.2g} at 40,000 values of z/r from 1e-4 to 1e4",
        holds=slack >= -1e-12,
    )


def _check_collisions(rng: np.random.Generator, n_draws: int = 20_000) -> Check:
    z = np.array([0.05, 0.3, 1.0, 2.0, 5.0])
    points = np.zeros((2 * len(z), 2))
    points[1::2, 0] = z
    met = np.zeros(len(z))
    for _ in range(n_draws):
        code = hash_points(points, 1.0, 1, rng)
        met += code[0::2] == code[1::2]
    expected = collision_probability(z, 1.0)
    sigmas = np.abs(met / n_draws - expected) / np.sqrt(expected * (1 - expected) / n_draws)
    return Check(
        claim="collision probability equals its integral",
        found=f"{n_draws:,} random functions differ by at most {sigmas.max():.1f} standard deviations",
        holds=bool(sigmas.max() < 4),
    )


def _check_rff_error(rng: np.random.Generator, n_draws: int = 4000) -> Check:
    z = np.array([0.1, 0.5, 1.0, 2.0, 4.0])
    worst = 0.0
    for n_features in (8, 32, 128):
        frequencies = rng.standard_normal((n_draws, n_features // 2))
        estimates = np.cos(frequencies[:, :, None] * z).mean(axis=1)
        squared = np.square(estimates - gaussian(z))
        expected = rff_mean_squared_error(gaussian(z), gaussian(2 * z), n_features)
        deviation = squared.std(axis=0) / np.sqrt(n_draws)
        worst = max(worst, float((np.abs(squared.mean(axis=0) - expected) / deviation).max()))
    return Check(
        claim="mean squared error of RFF is (1 + k(2z) − 2k(z)²) / D",
        found=f"D = 8, 32, 128 at 5 distances: difference at most {worst:.1f} standard deviations",
        holds=worst < 4,
    )


def _check_rff_flops() -> Check:
    n, d = 1000, 24
    ratios = [count_rff_flops(n, d, features) / (n * d * features) for features in (10, 1000, 100_000)]
    return Check(
        claim="RFF needs Θ(n d D) operations",
        found=f"count / (n d D) is {ratios[0]:.3f}, {ratios[1]:.3f}, {ratios[2]:.3f} at D = 10, 10³, 10⁵",
        holds=max(ratios) / min(ratios) < 1.05,
    )


def _check_lsh_flops(rng: np.random.Generator) -> Check:
    n, d, n_tables, n_functions, width = 400, 2, 3, 2, 1.0
    points = rng.uniform(0, 5, (n, d))
    counted, collisions = 0, 0
    for _ in range(n_tables):
        sizes = np.unique(hash_points(points, width, n_functions, rng), return_counts=True)[1]
        counted += n_functions * n * (2 * d - 1)
        for size in sizes.tolist():
            pairs = size * (size - 1) // 2
            collisions += pairs
            # Both directions of a pair share one kernel value; the block's product is dense.
            counted += pairs * (3 * d + 1) + d * size * (2 * size - 1)
    counted += (n_tables - 1) * n * d
    formula = count_lsh_flops(n, d, n_tables, n_functions, collisions / n_tables)
    return Check(
        claim="LSH needs m₁ (n m (2d−1) + collisions · (kernel + 4d) + n d) + (m₁−1) n d operations",
        found=f"{counted:,} counted bucket by bucket, {formula:,.0f} by the formula",
        holds=abs(counted - formula) < 0.5,
    )
