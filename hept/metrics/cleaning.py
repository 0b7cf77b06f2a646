"""What pileup mitigation is worth to an analysis: jets, missing pT and particles under several weights.

The truth is the leading collision alone, within |η| < 5. Its particles are scaled by

- `truth`: the true fraction, for the neutrals in the scope of the model; what a perfect model would reach;
- `model`: charged by their vertex, neutrals in the scope by the model's weight, others 0;
- `puppi`: charged by their vertex, all neutrals by PUPPI;
- `chs`: charged-hadron subtraction: charged by their vertex, all neutrals 1;
- `none`: 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hept.metrics.calibration import Calibration, calibrate_curve
from hept.metrics.classification import Classification, classify
from hept.metrics.jet_account import JetAccount
from hept.metrics.jets import PT_MIN, Jets, find_jets
from hept.metrics.missing_pt import describe_missing_pt, missing_pt
from hept.metrics.puppi import count_collisions, weigh_puppi

WEIGHTS = ("truth", "model", "puppi", "chs", "none")
MAX_ETA = 5.0
_JET_FIGURES = (
    "response",
    "resolution",
    "resolution_error",
    "efficiency",
    "fake_rate",
    "mass_bias",
    "mass_resolution",
    "constituents",
)


@dataclass
class Cleaning:
    """An account over many events."""

    true_met: list[NDArray[np.float64]] = field(default_factory=list)
    met: dict[str, list[NDArray[np.float64]]] = field(default_factory=lambda: {n: [] for n in WEIGHTS})
    jets: dict[tuple[str, float], JetAccount] = field(
        default_factory=lambda: {(n, r): JetAccount(r) for n in WEIGHTS for r in PT_MIN}
    )
    particles: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    n_collisions: list[float] = field(default_factory=list)
    has_jets: bool = True
    weights: tuple[str, ...] = WEIGHTS

    def add(self, columns: dict[str, NDArray[Any]], probability: NDArray[np.floating]) -> None:
        """Take in one event.

        Args:
            columns: The columns of a pileup cloud.
            probability: (N,) the model's weight.
        """
        c = {name: values[np.abs(columns["eta"]) < MAX_ETA] for name, values in columns.items()}
        weights = weigh_all(c, probability[np.abs(columns["eta"]) < MAX_ETA], self.weights)
        is_leading, is_scored = c["is_leading"].astype(bool), c["is_scored"].astype(bool)
        n_collisions = count_collisions(c["eta"], c["charge"], is_leading)
        self.n_collisions.append(n_collisions)
        kept: dict[str, NDArray[Any]] = {
            name: c[name][is_scored] for name in ("pt", "eta", "pid_class") if name in c
        }
        kept |= {name: weight[is_scored] for name, weight in weights.items()}
        self.particles.append(kept | {"is_leading": is_leading[is_scored]})
        truth = find_fraction(c)
        self.true_met.append(missing_pt(c["px"], c["py"], truth))
        for name, weight in weights.items():
            self.met[name].append(missing_pt(c["px"], c["py"], weight))
        for radius in PT_MIN:
            true = self._jets(c, truth, radius)
            for name, weight in weights.items():
                found = self._jets(c, weight, radius)
                if true is not None and found is not None:
                    self.jets[name, radius].add(true, found, n_collisions)

    def pooled(self, name: str) -> NDArray[Any]:
        """A column of the scored particles of all events: pt, eta, pid_class, is_leading, or a weight."""
        return np.concatenate([event[name] for event in self.particles])

    def classify(self, name: str) -> Classification:
        """Curves and areas of a weight over the scored particles of all events within |η| < 5."""
        return classify(self.pooled(name), self.pooled("is_leading"), threshold=0.5)

    def calibration(self, name: str = "model") -> Calibration:
        """How far the weight of the scored particles is a probability."""
        return calibrate_curve(self.pooled(name), self.pooled("is_leading"))

    def missing_pt(self, name: str, chosen: NDArray[np.bool_] | None = None) -> dict[str, float]:
        """Figures of the missing pT under a weight, of all or of some of the events."""
        true, found = np.array(self.true_met).reshape(-1, 2), np.array(self.met[name]).reshape(-1, 2)
        return describe_missing_pt(*((true, found) if chosen is None else (true[chosen], found[chosen])))

    def result(self) -> dict[str, float]:
        """Figures by name and weight: missing pT and masses in GeV, response and resolution as fractions."""
        numbers: dict[str, float] = {}
        for name in self.weights:
            curves = self.classify(name)
            numbers[f"auc_{name}"], numbers[f"roc_auc_{name}"] = curves.auc, curves.roc_auc
            numbers[f"calibration_error_{name}"] = self.calibration(name).error
        for name in self.weights:
            numbers |= {f"met_{figure}_{name}": value for figure, value in self.missing_pt(name).items()}
        for radius in PT_MIN if self.has_jets else ():
            prefix = "jet" if radius == 0.4 else f"jet{round(10 * radius)}"
            for name in self.weights:
                figures = self.jets[name, radius].result()
                numbers |= {f"{prefix}_{figure}_{name}": figures[figure] for figure in _JET_FIGURES}
            numbers[f"n_{prefix}s"] = figures["n_true"]
        return numbers

    def _jets(self, c: dict[str, NDArray[Any]], weight: NDArray[np.float64], radius: float) -> Jets | None:
        if not self.has_jets:
            return None
        try:
            pt_min = JetAccount(radius).search_pt
            return find_jets(c["px"], c["py"], c["eta"], c["energy"], weight, radius=radius, pt_min=pt_min)
        except InputError:
            # fastjet is optional: without it, all other figures are still computed.
            self.has_jets = False
            return None


def find_fraction(columns: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """(N,) part of each particle's energy that is from the leading collision; the label where not stored."""
    return columns.get("hard_fraction", columns["is_leading"]).astype(np.float64)


def weigh_all(
    columns: dict[str, NDArray[Any]], probability: NDArray[np.floating], names: Sequence[str] = WEIGHTS
) -> dict[str, NDArray[np.float64]]:
    """(N,) each of the weights for one event."""
    c = columns
    is_charged, is_leading, is_scored = c["charge"] != 0, c["is_leading"].astype(bool), c["is_scored"]
    vertex = (is_charged & is_leading).astype(np.float64)
    rules: dict[str, Callable[[], NDArray[np.float64]]] = {
        "truth": lambda: np.where(is_charged, vertex, np.where(is_scored, find_fraction(c), 0.0)),
        "model": lambda: np.where(is_charged, vertex, np.where(is_scored, probability, 0.0)),
        "puppi": lambda: weigh_puppi(c["eta"], c["phi"], c["pt"], c["charge"], is_leading),
        "chs": lambda: np.where(is_charged, vertex, 1.0),
        "none": lambda: np.ones(len(is_charged)),
    }
    return {name: rules[name]() for name in names}


def tabulate_weights(numbers: dict[str, float]) -> list[tuple[str, *tuple[float, ...]]]:
    """Rows of a table with a column for each of `WEIGHTS`: figures that exist for all of them."""
    names = [name.removesuffix(f"_{WEIGHTS[0]}") for name in numbers if name.endswith(f"_{WEIGHTS[0]}")]
    return [
        (name, *(numbers[f"{name}_{weight}"] for weight in WEIGHTS))
        for name in names
        if all(f"{name}_{weight}" in numbers for weight in WEIGHTS)
    ]
