"""The formulas of the paper's Sec. 3 and of its proofs, as functions of arrays of distances.

Symbols: z distance of a pair, r bucket width of E²LSH, d dimensions, n points, D random features,
m functions per table (AND), m₁ tables (OR).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Floats = NDArray[np.float64]


def collision_probability(z: Floats, r: float) -> Floats:
    """Probability that one E²LSH function ⌊(a·x + b) / r⌋ puts two points at distance z into one bucket.

    Args:
        z: Distances; 0 gives 1.
        r: Bucket width.

    Raises:
        ValueError: `r` is not positive.
    """
    if r <= 0:
        raise ValueError(f"r is {r}; a bucket width must be positive")
    z = np.asarray(z, dtype=np.float64)
    with np.errstate(divide="ignore"):
        u = r / (np.sqrt(2) * z)
    # At z = 0, u is infinite: erf is 1 and the second term vanishes.
    probability: Floats = erf(u) + np.expm1(-np.square(u)) / (u * np.sqrt(np.pi))
    return probability


def bound_collision_probability(z: Floats, r: float) -> tuple[Floats, Floats]:
    """Lower and upper bounds of the collision probability: linear in z/r below r, a multiple of r/z above."""
    ratio = np.asarray(z, dtype=np.float64) / r
    with np.errstate(divide="ignore"):
        inverse = 1 / ratio
    lower = np.where(ratio < 1, 1 - np.sqrt(2 / np.pi) * ratio, np.sqrt(2 / np.pi) / 3 * inverse)
    upper = np.where(ratio < 1, 1 - np.sqrt(1 / (2 * np.pi)) * ratio, np.sqrt(1 / (2 * np.pi)) * inverse)
    return lower, upper


def lsh_error(probability: Floats, kernel: Floats, n_tables: int, n_functions: int) -> Floats:
    """Expected squared error per pair: the kernel value is lost if the pair collides in no table.

    Args:
        probability: Collision probability of one function, per pair.
        kernel: True kernel value, per pair.
        n_tables: OR-ed tables m₁.
        n_functions: AND-ed functions per table m.
    """
    missed: Floats = (1 - probability**n_functions) ** n_tables
    return missed * kernel**2


def rff_mean_squared_error(kernel: Floats, kernel_at_twice: Floats, n_features: int) -> Floats:
    """Expected squared error of random Fourier features, per pair: (1 + k(2z) − 2 k(z)²) / D."""
    error: Floats = (1 + kernel_at_twice - 2 * kernel**2) / n_features
    return error


def count_rff_flops(n_points: int, n_dimensions: int, n_features: int) -> int:
    """Operations of X′(Y′ᵀV) with D random Fourier features; both feature maps share the projections.

    n D (2d − 1) + n d for the features, D d (2n − 1) + n d (2D − 1) for the two products.
    """
    n, d, features = n_points, n_dimensions, n_features
    return n * features * (2 * d - 1) + n * d + features * d * (2 * n - 1) + n * d * (2 * features - 1)


def count_kernel_flops(n_dimensions: int) -> int:
    """Operations of one exp(−½‖x − y‖²): 3d − 1 for the squared distance, one scaling, one exponential."""
    return 3 * n_dimensions + 1


def count_lsh_flops(
    n_points: int, n_dimensions: int, n_tables: int, n_functions: int, n_collisions: float
) -> float:
    """Operations of AV by E²LSH, if `n_collisions` of the n(n − 1)/2 pairs collide in each table.

    Per table: n m (2d − 1) for hash values, one kernel value per colliding pair, and 4 d per colliding pair
    plus n d for the product of the blocks; then (m₁ − 1) n d to add the tables.
    """
    n, d = n_points, n_dimensions
    per_table = n * n_functions * (2 * d - 1) + n_collisions * (count_kernel_flops(d) + 4 * d) + n * d
    return n_tables * per_table + (n_tables - 1) * n * d
