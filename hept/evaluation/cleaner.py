"""Clean raw Delphes events: a ROOT file enters, scores, weights and scaled momenta of its particles leave.

Every particle of the source has an entry, in the order of the source: `score` of the model (NaN outside its
acceptance), `weight`, which is the calibrated score for neutral particles in the scope, and `px`, `py`, `pz`,
`e` of the scaled four-momentum in GeV.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, InputError
from hepdata.features.pileup import PileupCuts
from hepdata.pipeline.pileup_source import PileupConfig, PileupSource
from hepdata.progress import Progress, Silent, counting
from hepdata.schema import PILEUP, SCORED_PT
from hepdata.storage.friend_file import write_friend
from hept.model.trained import TrainedModel

COLUMNS = ("score", "weight", "px", "py", "pz", "e")


@dataclass(frozen=True)
class Cleaned:
    """What was written.

    Attributes:
        out: The file.
        n_events: Its entries.
        n_particles: Particles in them.
    """

    out: Path
    n_events: int
    n_particles: int


def clean(
    trained: TrainedModel,
    source: str,
    out: Path,
    *,
    branches: str = "auto",
    scored_pt: float | None = None,
    progress: Progress | None = None,
) -> Cleaned:
    """Write a pileup model's weights for every particle of a Delphes file; see `hept.clean`.

    Charged particles have the weight of their vertex where the source tells it, otherwise 1; neutral ones
    above `scored_pt` that of the model, others 0.
    """
    if trained.task != PILEUP.task:
        raise InputError(
            trained.source,
            found=f"a model for {trained.task}",
            expected="a pileup model for a Delphes file",
            remedy="give another model, or a dataset",
        )
    if scored_pt is None:
        scored_pt = min(SCORED_PT, trained.calibration.pt_min)
    config = PileupConfig(branches=branches, cuts=PileupCuts(scored_pt=scored_pt), is_labelled=False)
    events = PileupSource.open([source], config)
    if events.branches.is_labelled:
        # Only for the vertices of charged particles: the labels of neutral particles are not needed.
        events = replace(events, config=replace(config, is_labelled=True))
    _check_inputs(trained, events, source)
    listener, refs, n_particles = progress or Silent(), events.list_events(), 0
    with counting(listener, "cleaning", len(refs), "event"), write_friend(out, COLUMNS) as file:
        for _, clouds in events.read_clouds(refs):
            if isinstance(clouds, HeptError):
                raise clouds
            rows = _weigh(trained, clouds[0]) if clouds else dict.fromkeys(COLUMNS, np.zeros(0, np.float32))
            file.add(rows)
            n_particles += len(rows["score"])
            listener.advance()
    return Cleaned(out, len(refs), n_particles)


def _check_inputs(trained: TrainedModel, events: PileupSource, source: str) -> None:
    """Refuse a file whose branches do not give the model's inputs."""
    for entry in (*trained.features, *trained.coords):
        if not events.schema.has_column(entry.column):
            raise InputError(
                f"{source}, branches {events.branches.name}",
                found=f"no {entry.column!r}, which is an input of {trained.source}",
                expected="its leaves: IsPU or references (vertex), D0, DZ, or Eem and Ehad (em_fraction)",
                remedy="choose other branches, see hept-data inspect, or train without this feature",
            )


def _weigh(trained: TrainedModel, cloud: PointCloud) -> dict[str, NDArray[np.float32]]:
    """Columns of one event, in the order of the source."""
    c = cloud.columns
    logits = trained(cloud).reshape(-1).cpu().double().numpy()
    score, calibrated = expit(logits), trained.calibration(logits, c["pt"])
    vertex = c["vertex"] > 0 if "vertex" in c else np.ones(len(score), dtype=bool)
    weight = np.where(c["charge"] != 0, vertex, np.where(c["is_scored"], calibrated, 0.0))
    values = {
        "score": score,
        "weight": weight,
        "px": weight * c["px"],
        "py": weight * c["py"],
        "pz": weight * c["pt"] * np.sinh(c["eta"].astype(np.float64)),
        "e": weight * c["energy"],
    }
    n = cloud.n_points + cloud.n_dropped
    rows = {name: np.full(n, np.nan if name == "score" else 0.0, np.float32) for name in COLUMNS}
    for name, found in values.items():
        rows[name][c["index_in_source"]] = found
    return rows
