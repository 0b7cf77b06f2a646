"""How well tracks are measured: fitted and true helices of matched tracks enter, residuals and pulls leave.

A pull is a residual in units of the error that the fit gives: where that is right, its width is 1.

Axes: M matched tracks of targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hept.metrics.missing_pt import resolution
from hept.metrics.tracks import TargetCuts, TrackMatch

# Quantities and their units; the curvature as a part of the true one.
QUANTITIES = {"qpt": "(q/pT − true) · pT", "eta": "η", "phi": "φ [rad]", "d0": "d0 [mm]", "z0": "z0 [mm]"}
_NEEDED = ("charge", "phi", "d0", "z0")

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Residuals:
    """Fitted minus true values of matched tracks.

    Attributes:
        pt: (M,) true pT.
        residual: Quantity to (M,).
        pull: Quantity to (M,).
    """

    pt: Values
    residual: Mapping[str, Values]
    pull: Mapping[str, Values]

    @classmethod
    def compare(cls, fits: Mapping[str, NDArray[np.generic]], match: TrackMatch) -> Residuals | None:
        """Those of the targets that tracks match by double majority; None where true helices are not known.

        Args:
            fits: The table of the tracks in `match`, in their order, see `hept.tracks.table.fit_tracks`.
            match: Of the same event.
        """
        if not set(_NEEDED) <= set(match.particles):
            return None
        is_target = np.append(TargetCuts().select(match), False)[match.major]
        fitted = {name: np.asarray(values, np.float64) for name, values in fits.items()}
        used = is_target & match.is_matched["double_majority"] & np.isfinite(fitted["chi2"])
        found = {name: values[used] for name, values in fitted.items()}
        true = {name: match.of_track(name)[used] for name in ("pt", "eta", *_NEEDED)}
        found["qpt"], true["qpt"] = found["charge"] / found["pt"], true["charge"] / true["pt"]
        found["qpt_sigma"] = found["pt_sigma"] / found["pt"] ** 2
        residual = {name: found[name] - true[name] for name in QUANTITIES}
        residual["phi"] = np.arctan2(np.sin(residual["phi"]), np.cos(residual["phi"]))
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = {name: values / found[f"{name}_sigma"] for name, values in residual.items()}
        residual["qpt"] = residual["qpt"] * true["pt"]
        return cls(true["pt"], residual, pull)

    @classmethod
    def join(cls, parts: Sequence[Residuals]) -> Residuals:
        """Those of several events together."""
        return cls(
            np.concatenate([part.pt for part in parts]),
            {name: np.concatenate([part.residual[name] for part in parts]) for name in QUANTITIES},
            {name: np.concatenate([part.pull[name] for part in parts]) for name in QUANTITIES},
        )

    def rows(self) -> list[tuple[str, float, float, float, float]]:
        """Of each quantity the median and half the central 68 % of residuals, and the same of pulls."""
        return [
            (label, *_summarise(self.residual[name]), *_summarise(self.pull[name]))
            for name, label in QUANTITIES.items()
        ]


def _summarise(values: Values) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan"), resolution(known)
