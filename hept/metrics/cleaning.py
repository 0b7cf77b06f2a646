"""What pileup mitigation is worth to an analysis: resolution of missing pT and jet pT under several weights.

The truth is the leading collision alone. Charged particles are weighted by their vertex; neutral ones by

- `none`: 1, no mitigation beyond vertices;
- `puppi`: the PUPPI-like weight;
- `model`: the network's probability.

Neutral particles that are not scored (below 0.9 GeV) have weight 0 under `puppi` and `model` alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hept.metrics.classification import Classification, classify
from hept.metrics.jets import Jets, find_jets, match_jets
from hept.metrics.missing_pt import missing_pt, resolution
from hept.metrics.puppi import weigh_puppi

WEIGHTS = ("none", "puppi", "model")


@dataclass
class Cleaning:
    """An account over many events."""

    met_errors: dict[str, list[NDArray[np.float64]]] = field(default_factory=lambda: {n: [] for n in WEIGHTS})
    responses: dict[str, list[NDArray[np.float64]]] = field(default_factory=lambda: {n: [] for n in WEIGHTS})
    puppi: list[NDArray[np.float64]] = field(default_factory=list)
    labels: list[NDArray[np.bool_]] = field(default_factory=list)
    has_jets: bool = True

    def add(self, columns: dict[str, NDArray[Any]], probability: NDArray[np.floating]) -> None:
        """Take in one event.

        Args:
            columns: The columns of a pileup cloud.
            probability: (N,) of the leading collision, by the model.
        """
        c = columns
        is_charged, is_leading, is_scored = c["charge"] != 0, c["is_leading"], c["is_scored"]
        puppi = weigh_puppi(c["eta"], c["phi"], c["pt"], c["charge"], is_leading)
        vertex = np.where(is_charged, is_leading, False).astype(np.float64)
        weights = {
            "none": np.where(is_charged, vertex, 1.0),
            "puppi": np.where(is_charged, vertex, np.where(is_scored, puppi, 0.0)),
            "model": np.where(is_charged, vertex, np.where(is_scored, probability, 0.0)),
        }
        self.puppi.append(puppi[is_scored])
        self.labels.append(is_leading[is_scored].astype(bool))
        truth = is_leading.astype(np.float64)
        true_met = missing_pt(c["px"], c["py"], truth)
        true_jets = self._jets(c, truth)
        for name, weight in weights.items():
            self.met_errors[name].append(missing_pt(c["px"], c["py"], weight) - true_met)
            if true_jets is not None:
                jets = self._jets(c, weight, pt_min=5.0)
                if jets is not None:
                    self.responses[name].append(match_jets(true_jets, jets))

    def baseline(self) -> Classification:
        """Curves and areas of the PUPPI-like weight over the scored particles of all events."""
        return classify(np.concatenate(self.puppi), np.concatenate(self.labels), threshold=0.5)

    def result(self) -> dict[str, float]:
        """Resolutions in GeV (missing pT, per component) and relative (jets), and the baseline's areas."""
        pooled = self.baseline()
        numbers = {"auc_puppi": pooled.auc, "roc_auc_puppi": pooled.roc_auc}
        for name in WEIGHTS:
            numbers[f"met_resolution_{name}"] = resolution(np.concatenate(self.met_errors[name]))
        if self.has_jets:
            for name in WEIGHTS:
                response = np.concatenate([*self.responses[name], np.zeros(0)])
                found = response[np.isfinite(response)]
                numbers[f"jet_resolution_{name}"] = resolution(found)
                numbers[f"jet_response_{name}"] = float(np.median(found)) if len(found) else float("nan")
        return numbers

    def _jets(
        self, c: dict[str, NDArray[Any]], weight: NDArray[np.float64], pt_min: float = 20.0
    ) -> Jets | None:
        if not self.has_jets:
            return None
        try:
            return find_jets(c["px"], c["py"], c["eta"], c["energy"], weight, pt_min=pt_min)
        except InputError:
            # Jets are an extra: without fastjet everything else is still said.
            self.has_jets = False
            return None
