"""Histograms that fill cloud by cloud: edges from the manifest's ranges, counts by group of points.

Axes: N points of a cloud, B bins, G groups (leading and pileup, particle and noise, or all).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.schema import Column
from hepdata.storage.dataset.statistics import ColumnStatistics

_MOST_BARS = 40
_N_BINS = 60


@dataclass
class Histogram:
    """Counts of one column.

    Attributes:
        column: What is counted.
        edges: (B + 1,) bin edges.
        is_log: Whether bins are even in the logarithm.
        is_bars: Whether every bin is one whole number (or no / yes).
        counts: (G, B) by group.
    """

    column: Column
    edges: NDArray[np.float64]
    is_log: bool
    is_bars: bool
    counts: NDArray[np.int64] = field(repr=False)

    def fill(self, values: NDArray[Any], group: NDArray[np.int64]) -> None:
        """Count the values of one cloud; what is not finite is left out."""
        numbers = values.astype(np.float64)
        for number in range(len(self.counts)):
            chosen = numbers[(group == number) & np.isfinite(numbers)]
            self.counts[number] += np.histogram(chosen, bins=self.edges)[0]


def make_histogram(column: Column, statistics: ColumnStatistics, n_groups: int) -> Histogram:
    """An empty histogram whose bins suit the column's type and range."""
    low = 0.0 if statistics.minimum is None else statistics.minimum
    high = 1.0 if statistics.maximum is None else statistics.maximum
    is_whole = not column.dtype.startswith("float")
    if column.dtype == "bool":
        low, high = 0.0, 1.0
    is_bars = is_whole and high - low < _MOST_BARS
    is_log = not is_bars and low > 0 and high / low > 1e3
    if is_bars:
        edges = np.arange(np.floor(low), np.floor(high) + 2) - 0.5
    elif is_log:
        edges = np.geomspace(low, high, _N_BINS + 1)
        edges[0], edges[-1] = low, high  # geomspace may round the ends inwards
    else:
        margin = 0.5 if high == low else 0.0
        edges = np.linspace(low - margin, high + margin, _N_BINS + 1)
    return Histogram(column, edges, is_log, is_bars, np.zeros((n_groups, len(edges) - 1), dtype=np.int64))


def whole_edges(values: NDArray[np.integer]) -> NDArray[np.float64]:
    """Edges of at most 40 even bins around whole numbers, each holding as many of them as the others."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    width = -(-(high - low + 1) // _MOST_BARS)
    n_bins = -(-(high - low + 1) // width)
    return low - 0.5 + width * np.arange(n_bins + 1, dtype=np.float64)
