"""The search over hash settings: by exact expectation, against drawing hash functions for every setting."""

from __future__ import annotations

import numpy as np

from benchmarks.ratio import Ratio, seconds
from hept.paper.theory.draws import measure_lsh
from hept.paper.theory.experiment import ExperimentConfig, search_width
from hept.paper.theory.square import count_distances, draw_square

N_DRAWN = 6


def run() -> list[Ratio]:
    """One bucket width, all 400 numbers of tables and functions, 30,000 points."""
    config = ExperimentConfig()
    rng = np.random.default_rng(0)
    square = draw_square(config.n_points, config.side, config.n_neighbors, rng)
    pairs = count_distances(square)
    by_expectation = seconds(lambda: search_width(config, square.n_pairs, *pairs, 1.01))

    def draw() -> None:
        for _ in range(N_DRAWN):
            n_tables, n_functions = rng.integers(1, 21, 2)
            measure_lsh(square, 1.01, int(n_tables), int(n_functions), rng)

    by_drawing = seconds(draw, repeats=1) / N_DRAWN * config.max_tables * config.max_functions
    return [
        Ratio(
            "theory: 400 settings by expectation, against one draw of each",
            by_drawing / by_expectation,
            100,
            "at least",
            f"{by_expectation:.3f} s against {by_drawing:.0f} s ({N_DRAWN} drawn, scaled up)",
        )
    ]
