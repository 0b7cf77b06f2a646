"""Tracks of 60,000 embedded hits on one core: processor seconds of the tree."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.ratio import Ratio
from hept.tracks.tree import TreeChoice, grow_tracks

N_HITS, WIDTH, CUT = 60_000, 12, 0.15


def make_hits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings about those of their track, which depend on three parameters; layers; modules."""
    rng = np.random.default_rng(0)
    n_tracks = N_HITS // 8
    direction = rng.uniform(-3, 3, (n_tracks, 3))
    centre = np.sin(direction @ rng.normal(0, 2, (3, WIDTH)))
    embeddings = np.repeat(centre, 8, 0) + rng.normal(0, 0.02, (8 * n_tracks, WIDTH))
    return embeddings, np.tile(np.arange(8), n_tracks), rng.integers(0, 10**6, 8 * n_tracks)


def run() -> list[Ratio]:
    """The time goal is of a core of its own, hence processor time."""
    inputs = make_hits()
    begun = time.process_time()
    label = grow_tracks(*inputs, TreeChoice(cut=CUT))
    spent = time.process_time() - begun
    return [
        Ratio(
            f"tree of {N_HITS:,} hits, processor seconds",
            spent,
            2.0,
            "at most",
            f"{spent:.2f} s, {label.max() + 1:,} tracks",
        )
    ]
