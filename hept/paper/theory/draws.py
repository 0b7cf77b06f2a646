"""Draw random features or hashes and measure the error of every pair, to check the formulas."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hept.paper.theory.square import Square, gaussian

# Anchors are compared with all points; with many points, the anchors are a sample of this size.
MAX_RFF_ANCHORS = 300
MIX = np.uint64(0x9E3779B97F4A7C15)


def hash_points(
    points: NDArray[np.float64], width: float, n_functions: int, rng: np.random.Generator
) -> NDArray[np.uint64]:
    """One E²LSH table: points with equal codes agree in all `n_functions` functions ⌊(a·x + b) / r⌋."""
    directions = rng.standard_normal((points.shape[1], n_functions))
    shifts = rng.uniform(0, width, n_functions)
    buckets = np.floor((points @ directions + shifts) / width).astype(np.int64).astype(np.uint64)
    code = np.zeros(len(points), dtype=np.uint64)
    for bucket in buckets.T:
        # A 64-bit hash of the tuple: 30,000 different tuples collide once in 10¹⁰ tables.
        code = (code ^ bucket) * MIX
        code ^= code >> np.uint64(29)
    return code


def measure_lsh(
    square: Square, width: float, n_tables: int, n_functions: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Draw the tables; return the colliding pairs, summed over tables, and the mean error per pair."""
    joined = np.zeros(square.neighbors.shape, dtype=bool)
    n_collisions = 0.0
    for _ in range(n_tables):
        code = hash_points(square.points, width, n_functions, rng)
        joined |= code[square.neighbors] == code[:, None]
        sizes = np.unique(code, return_counts=True)[1].astype(np.float64)
        n_collisions += float((sizes * (sizes - 1)).sum() / 2)
    missed = np.where(joined, 0.0, gaussian(square.distances))
    return n_collisions, float(np.square(missed).sum() / square.n_pairs)


def measure_rff(square: Square, n_features: int, rng: np.random.Generator) -> float:
    """Draw D random Fourier features of exp(−½ z²); return the error against the truncated kernel."""
    frequencies = rng.standard_normal((square.points.shape[1], n_features // 2))
    anchors = rng.permutation(square.n_points)[:MAX_RFF_ANCHORS]
    rows = np.arange(len(anchors))
    # Single precision: its rounding error, 1e-7, is far below the measured error.
    points = square.points.astype(np.float32)
    estimate = np.zeros((len(anchors), square.n_points), dtype=np.float32)
    for columns in np.array_split(frequencies.astype(np.float32), max(1, n_features // 512), axis=1):
        angles = points @ columns
        cosine, sine = np.cos(angles), np.sin(angles)
        estimate += cosine[anchors] @ cosine.T + sine[anchors] @ sine.T
    estimate *= 2 / n_features
    estimate[rows[:, None], square.neighbors[anchors]] -= gaussian(square.distances[anchors])
    estimate[rows, anchors] = 0
    total = float(np.square(estimate).sum(dtype=np.float64))
    return total / (len(anchors) * (square.n_points - 1))
