"""Jets of many events under one set of weights, against the true jets: events enter, binned figures leave.

Axes: J true jets, F found jets, of all events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import delta_phi
from hept.metrics.jets import FOUND_PART, MATCH_PART, PT_MIN, Jets, match_jets
from hept.metrics.missing_pt import resolution

_TRUE = ("pt", "eta", "n_collisions", "response", "mass", "mass_error", "n_constituents", "constituents")
_FOUND = ("pt", "eta", "n_collisions", "is_fake")


@dataclass
class JetAccount:
    """True jets above `PT_MIN` with what was found of them, and found jets with whether they are fakes.

    A true jet is found where a jet of at least half that pT is matched to it. A found jet above `PT_MIN` is a
    fake where no true jet of at least half that pT is near.
    """

    radius: float
    _true: list[NDArray[np.float64]] = field(default_factory=list)
    _found: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def pt_min(self) -> float:
        """GeV: softest jet that counts."""
        return PT_MIN[self.radius]

    @property
    def search_pt(self) -> float:
        """GeV: softest jet to look for."""
        return FOUND_PART * self.pt_min

    def add(self, true: Jets, found: Jets, n_collisions: float) -> None:
        """Take in an event; both from `search_pt` on."""
        n = int((true.pt >= self.pt_min).sum())  # hardest first
        match = match_jets(true, found, radius=self.radius)
        hit, at = match[:n] >= 0, match[:n].clip(min=0)
        rows = np.full((n, len(_TRUE)), np.nan)
        rows[:, :3] = np.stack([true.pt[:n], true.eta[:n], np.full(n, n_collisions)], axis=1)
        rows[:, 4], rows[:, 6] = true.mass[:n], true.n_constituents[:n]
        if hit.any():
            rows[hit, 3] = found.pt[at[hit]] / true.pt[:n][hit]
            rows[hit, 5] = found.mass[at[hit]] - true.mass[:n][hit]
            rows[hit, 7] = found.n_constituents[at[hit]] / true.n_constituents[:n][hit]
        self._true.append(rows)
        hard = np.flatnonzero(found.pt >= self.pt_min)
        is_fake = ~np.isin(hard, match) & ~_is_near(found, true, MATCH_PART * self.radius)[hard]
        self._found.append(
            np.stack([found.pt[hard], found.eta[hard], np.full(len(hard), n_collisions), is_fake], axis=1)
        )

    def extend(self, other: JetAccount) -> None:
        """Add the events of another account."""
        self._true += other._true
        self._found += other._found

    def responses(self, events: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Found/true pT of the matched jets of all events, or of those chosen by index."""
        chosen = self._true if events is None else [self._true[event] for event in events]
        response = np.concatenate([*(rows[:, 3] for rows in chosen), np.zeros(0)])
        return np.asarray(response[np.isfinite(response)])

    @property
    def true(self) -> dict[str, NDArray[np.float64]]:
        """(J,) pt, eta, n_collisions, response, mass, mass_error, n_constituents, constituents (ratio)."""
        rows = np.concatenate([*self._true, np.zeros((0, len(_TRUE)))])
        return dict(zip(_TRUE, rows.T, strict=True))

    @property
    def found(self) -> dict[str, NDArray[np.float64]]:
        """(F,) pt, eta, n_collisions, is_fake."""
        rows = np.concatenate([*self._found, np.zeros((0, len(_FOUND)))])
        return dict(zip(_FOUND, rows.T, strict=True))

    def result(self) -> dict[str, float]:
        """Response, relative resolution, efficiency, fakes and their counts, mass and constituents."""
        return _describe(self.true, self.found)

    def against(self, variable: str, edges: NDArray[np.floating]) -> list[dict[str, float]]:
        """The figures of `result` in bins of pt, eta or n_collisions."""
        bins = []
        for low, high in pairwise(edges):
            parts = []
            for table in (self.true, self.found):
                is_in = (table[variable] >= low) & (table[variable] < high)
                parts.append({name: values[is_in] for name, values in table.items()})
            bins.append(_describe(*parts))
        return bins


def _is_near(found: Jets, true: Jets, distance: float) -> NDArray[np.bool_]:
    delta_eta = found.eta[:, None] - true.eta
    return np.asarray((np.hypot(delta_eta, delta_phi(found.phi[:, None], true.phi)) < distance).any(1))


def _describe(
    true: dict[str, NDArray[np.float64]], found: dict[str, NDArray[np.float64]]
) -> dict[str, float]:
    response = true["response"][np.isfinite(true["response"])]
    n_true, n_matched, n_found = len(true["pt"]), len(response), len(found["pt"])
    median = float(np.median(response)) if n_matched else float("nan")
    mass_error = true["mass_error"][np.isfinite(true["mass_error"])]
    constituents = true["constituents"][np.isfinite(true["constituents"])]
    width = resolution(response) / median
    # Statistical errors of n entries of a normal distribution: of a width σ/√(2n), of a median 1.25 σ/√n.
    of_width, of_median = 1 / np.sqrt(2 * max(n_matched, 1)), 1.25 / np.sqrt(max(n_matched, 1))
    return {
        "response": median,
        "response_error": of_median * resolution(response),
        "resolution": width,
        "resolution_error": of_width * width,
        "efficiency": n_matched / n_true if n_true else float("nan"),
        "fake_rate": float(found["is_fake"].mean()) if n_found else float("nan"),
        "mass_bias": float(np.median(mass_error)) if n_matched else float("nan"),
        "mass_bias_error": of_median * resolution(mass_error),
        "mass_resolution": resolution(mass_error),
        "mass_resolution_error": of_width * resolution(mass_error),
        "constituents": float(np.median(constituents)) if n_matched else float("nan"),
        "constituents_error": of_median * resolution(constituents),
        "n_true": float(n_true),
        "n_found": float(n_found),
    }
