"""Error against computation for three approximations of one local kernel (Sec. 3.3 and Appendix C.3).

A configuration enters. For every budget of operations, the best approximation of each method leaves, found by
the exact expectation over random functions, together with its error for functions that are actually drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hepdata.progress import Progress, Silent, counting
from hept.paper.theory.draws import measure_lsh, measure_rff
from hept.paper.theory.lemmas import (
    collision_probability,
    count_lsh_flops,
    count_rff_flops,
    lsh_error,
    rff_mean_squared_error,
)
from hept.paper.theory.square import DistanceCounts, Square, count_distances, draw_square, gaussian

METHODS = ("RFF", "OR-only LSH", "OR & AND LSH")
N_DIMENSIONS = 2


@dataclass(frozen=True)
class ExperimentConfig:
    """The constants and search ranges of Appendix C.3.

    Attributes:
        n_points: Points in the square.
        side: Side of the square.
        n_neighbors: Points with which each point interacts.
        widths: Bucket widths r, 0.01 to 5 in steps of 0.05.
        max_tables: Largest number of tables in the search.
        max_functions: Largest number of functions per table in the search (OR-only: 1).
        max_features: Largest number of random features D; the search uses powers of two.
        budgets_per_decade: Budgets per decade of operations.
        n_draws: Number of random draws of the best approximations.
        seed: Seed of the points and the draws.
    """

    n_points: int = 30_000
    side: float = 10.0
    n_neighbors: int = 64
    widths: tuple[float, ...] = tuple(np.arange(0.01, 5.0, 0.05).round(2).tolist())
    max_tables: int = 20
    max_functions: int = 20
    max_features: int = 16_384
    budgets_per_decade: int = 8
    n_draws: int = 3
    seed: int = 0

    @classmethod
    def quick(cls) -> ExperimentConfig:
        """A tenth of the points at the same density, and a coarser search: seconds instead of minutes."""
        full = cls()
        side = full.side / float(np.sqrt(10))
        return cls(
            n_points=3000,
            side=side,
            widths=full.widths[::4],
            max_features=2048,
            budgets_per_decade=4,
            n_draws=1,
        )


@dataclass(frozen=True)
class Approximation:
    """One approximation: its settings, its cost and its error.

    Attributes:
        method: One of `METHODS`.
        flops: Expected operations of A·V.
        error: Expected squared error of the kernel, averaged over all ordered pairs.
        width: Bucket width r (LSH).
        n_tables: OR-ed tables (LSH).
        n_functions: AND-ed functions per table (LSH).
        n_features: Random features D (RFF).
        budget: Budget of operations at which this is the best.
        drawn_flops: Mean operations over the random draws.
        drawn_error: Mean error over the random draws.
    """

    method: str
    flops: float
    error: float
    width: float | None = None
    n_tables: int | None = None
    n_functions: int | None = None
    n_features: int | None = None
    budget: float | None = None
    drawn_flops: float | None = None
    drawn_error: float | None = None


@dataclass(frozen=True)
class ExperimentResult:
    """Result of the experiment.

    Attributes:
        config: Configuration of the experiment.
        best: The best approximation of every method at every budget that allows one.
        no_attention_error: Error of an approximation by zero.
        truncation_error: Error that RFF cannot reduce, since it approximates the kernel without truncation.
        n_searched: Number of settings tried.
    """

    config: ExperimentConfig
    best: tuple[Approximation, ...]
    no_attention_error: float
    truncation_error: float
    n_searched: int

    def of_method(self, method: str) -> list[Approximation]:
        """The best approximations of one method, by increasing budget."""
        return [found for found in self.best if found.method == method]


@dataclass(frozen=True)
class _Cloud:
    square: Square
    all_pairs: DistanceCounts
    near_pairs: DistanceCounts
    near_kernel: NDArray[np.float64] = field(repr=False)


def run_experiment(config: ExperimentConfig, progress: Progress | None = None) -> ExperimentResult:
    """Search all settings by their expected error, then draw the best ones."""
    progress = progress or Silent()
    rng = np.random.default_rng(config.seed)
    square = draw_square(config.n_points, config.side, config.n_neighbors, rng)
    all_pairs, near_pairs = count_distances(square)
    cloud = _Cloud(square, all_pairs, near_pairs, gaussian(near_pairs.z))
    found = list(_search_rff(config, cloud))
    with counting(progress, "search", len(config.widths), "bucket width"):
        for width in config.widths:
            found += search_width(config, square.n_pairs, all_pairs, near_pairs, width)
            progress.advance()
    best = _keep_best(found, config.budgets_per_decade)
    return ExperimentResult(
        config=config,
        best=tuple(_draw_best(best, cloud, config, rng, progress)),
        no_attention_error=near_pairs.total(cloud.near_kernel**2) / square.n_pairs,
        truncation_error=_truncation_error(cloud),
        n_searched=len(found),
    )


def _truncation_error(cloud: _Cloud) -> float:
    squared_everywhere = cloud.all_pairs.total(gaussian(cloud.all_pairs.z) ** 2)
    return (squared_everywhere - cloud.near_pairs.total(cloud.near_kernel**2)) / cloud.square.n_pairs


def _search_rff(config: ExperimentConfig, cloud: _Cloud) -> Iterator[Approximation]:
    z = cloud.all_pairs.z
    bias = _truncation_error(cloud)
    for power in range(1, int(np.log2(config.max_features)) + 1):
        n_features = 2**power
        variance = rff_mean_squared_error(gaussian(z), gaussian(2 * z), n_features)
        yield Approximation(
            method="RFF",
            flops=count_rff_flops(config.n_points, N_DIMENSIONS, n_features),
            error=bias + cloud.all_pairs.total(variance) / cloud.square.n_pairs,
            n_features=n_features,
        )


def search_width(
    config: ExperimentConfig,
    n_pairs: int,
    all_pairs: DistanceCounts,
    near_pairs: DistanceCounts,
    width: float,
) -> list[Approximation]:
    """Expected cost and error for all numbers of tables and functions at one bucket width."""
    kernel = gaussian(near_pairs.z)
    near, everywhere = (collision_probability(pairs.z, width) for pairs in (near_pairs, all_pairs))
    found = []
    for n_functions in range(1, config.max_functions + 1):
        collisions = all_pairs.total(everywhere**n_functions) / 2
        methods = METHODS[1:] if n_functions == 1 else METHODS[2:]
        for n_tables in range(1, config.max_tables + 1):
            error = near_pairs.total(lsh_error(near, kernel, n_tables, n_functions))
            flops = count_lsh_flops(config.n_points, N_DIMENSIONS, n_tables, n_functions, collisions)
            found += [
                Approximation(
                    method,
                    flops,
                    error / n_pairs,
                    width,
                    n_tables=n_tables,
                    n_functions=n_functions,
                )
                for method in methods
            ]
    return found


def _keep_best(found: list[Approximation], budgets_per_decade: int) -> list[Approximation]:
    flops = np.array([one.flops for one in found])
    low, high = np.log10(flops.min()), np.log10(flops.max())
    steps = np.arange(np.ceil(low * budgets_per_decade), high * budgets_per_decade + 1)
    budgets = 10 ** (steps / budgets_per_decade)
    best = []
    for method in METHODS:
        ordered = sorted((one for one in found if one.method == method), key=lambda one: one.flops)
        costs = [one.flops for one in ordered]
        least = np.minimum.accumulate([one.error for one in ordered])
        for budget in budgets:
            affordable = int(np.searchsorted(costs, budget, side="right"))
            if affordable:
                chosen = next(one for one in ordered if one.error == least[affordable - 1])
                best.append(replace(chosen, budget=float(budget)))
    return best


def _draw_best(
    best: list[Approximation],
    cloud: _Cloud,
    config: ExperimentConfig,
    rng: np.random.Generator,
    progress: Progress,
) -> Iterator[Approximation]:
    # The same setting is often the best at several budgets; it is drawn only once.
    drawn: dict[Approximation, tuple[float, float]] = {}
    with counting(progress, "draw", len(best), "setting"):
        for one in best:
            setting = replace(one, budget=None)
            if setting not in drawn:
                drawn[setting] = _draw(setting, cloud.square, config.n_draws, rng)
            flops, error = drawn[setting]
            progress.advance()
            yield replace(one, drawn_flops=flops, drawn_error=error)


def _draw(
    setting: Approximation, square: Square, n_draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    if setting.n_features is not None:
        errors = [measure_rff(square, setting.n_features, rng) for _ in range(n_draws)]
        return setting.flops, float(np.mean(errors))
    width, n_tables, n_functions = setting.width or 0.0, setting.n_tables or 1, setting.n_functions or 1
    draws = [measure_lsh(square, width, n_tables, n_functions, rng) for _ in range(n_draws)]
    collisions, error = np.mean(draws, axis=0)
    n, d = square.n_points, N_DIMENSIONS
    return count_lsh_flops(n, d, n_tables, n_functions, collisions / n_tables), float(error)
