"""The demo's pictures: a trained and an untrained model enter, PNG files leave."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset
from hepdata.pictures.canvas import new_figure, save_figure, share_view
from hepdata.pictures.event import draw_groups, draw_pileup, name_by_majority
from hept.evaluation.clustering import Clustering, cluster
from hept.evaluation.evaluator import embed, open_split
from hept.evaluation.tuning import load_clustering
from hept.metrics.classification import Classification, classify
from hept.model.dataset_checks import find_target
from hept.model.trained import TrainedModel
from hept.report.pictures import draw_loss, draw_precision_recall
from hept.runs.folder import RunFolder

_SHOWN_PT = 0.5


@dataclass(frozen=True)
class Prediction:
    """A model's output for one cloud of the test split."""

    batch: Batch
    out: NDArray[np.float32]

    def column(self, name: str) -> NDArray[Any]:
        """A stored column of the cloud."""
        values: NDArray[Any] = self.batch.columns[name].numpy()
        return values


def draw_demo(
    folder: Path, dataset: Dataset, trained: TrainedModel, untrained: TrainedModel, run: Path
) -> list[Path]:
    """Draw events, loss and precision–recall of one task; returns the files written."""
    before = _predict(untrained, dataset)
    after = _predict(trained, dataset)
    if trained.is_embedding:
        curve, paths = (
            _pair_curve,
            _draw_tracking_event(folder, after[0], load_clustering(run) or Clustering()),
        )
    else:
        curve, paths = _score_curve, _draw_pileup_event(folder, after[0])

    figure, (panel,) = new_figure()
    rows = RunFolder(run).read_rows("metrics")
    epochs = [float(row["epoch"]) for row in rows]
    curves = {
        label: (epochs, [float(row[name]) for row in rows])
        for label, name in (("training", "train_loss"), ("validation", "valid_loss"))
    }
    draw_loss(panel, curves, title=f"{trained.task}: loss")
    paths.append(save_figure(figure, folder / f"{trained.task}-loss.png"))

    figure, (panel,) = new_figure()
    quality = {"untrained": curve(before), "trained": curve(after)}
    scored = find_target(dataset).scored
    draw_precision_recall(
        panel,
        {f"{name} (area {one.auc:.2f})": (one.precision, one.recall) for name, one in quality.items()},
        title=f"{trained.task}: {'pairs by distance, ' if trained.is_embedding else ''}{scored}, test split",
    )
    paths.append(save_figure(figure, folder / f"{trained.task}-precision-recall.png"))
    return paths


def _predict(model: TrainedModel, dataset: Dataset) -> list[Prediction]:
    loader = open_split(model, dataset, "test")
    return [Prediction(batch, out.float().numpy()) for out, batch in embed(model.network, loader)]


def _draw_tracking_event(folder: Path, cloud: Prediction, clustering: Clustering) -> list[Path]:
    eta, phi, particle = cloud.column("eta"), cloud.column("phi"), cloud.column("particle_id")
    outwards = cloud.column("r") + np.abs(cloud.column("z"))
    # Soft particles are too many to distinguish in a picture: they are clustered, but drawn faintly.
    is_shown = cloud.column("pt") > _SHOWN_PT
    found = name_by_majority(cluster(cloud.out, **asdict(clustering)), particle)
    truth = np.where(is_shown, particle, 0)
    grouped = np.where(is_shown, found, 0)

    figure, (panel,) = new_figure()
    draw_groups(panel, eta, phi, truth, title=f"raw event, coloured by particle (pT > {_SHOWN_PT} GeV)")
    paths = [save_figure(figure, folder / "tracking-event-truth.png")]

    figure, panels = new_figure(2)
    draw_groups(panels[0], eta, phi, truth, title="true particles", joined_along=outwards)
    right = np.mean((truth == grouped)[is_shown]) if is_shown.any() else 0.0
    title = f"grouped by the model ({100 * right:.0f} % of these hits with their particle)"
    draw_groups(panels[1], eta, phi, grouped, title=title, joined_along=outwards)
    share_view(panels)
    return [*paths, save_figure(figure, folder / "tracking-event-grouped.png")]


def _draw_pileup_event(folder: Path, cloud: Prediction) -> list[Path]:
    eta, phi, pt = cloud.column("eta"), cloud.column("phi"), cloud.column("pt")
    leading = cloud.column("is_leading").astype(float)
    is_scored = cloud.column("is_scored").astype(bool)

    figure, (panel,) = new_figure()
    draw_pileup(panel, eta, phi, pt, leading, title="raw event: leading collision in red, pileup in blue")
    paths = [save_figure(figure, folder / "pileup-event-truth.png")]

    score = 1 / (1 + np.exp(-cloud.out[:, 0].astype(float)))
    figure, panels = new_figure(2)
    truth = np.where(is_scored, leading, np.nan)
    draw_pileup(panels[0], eta, phi, pt, truth, title="neutral particles: the truth", colorbar="leading")
    scores = np.where(is_scored, score, np.nan)
    draw_pileup(panels[1], eta, phi, pt, scores, title="the same, by the model's score", colorbar="score")
    share_view(panels)
    return [*paths, save_figure(figure, folder / "pileup-event-scored.png")]


def _score_curve(clouds: list[Prediction]) -> Classification:
    is_scored = np.concatenate([cloud.column("is_scored") for cloud in clouds]).astype(bool)
    scores = np.concatenate([cloud.out[:, 0] for cloud in clouds])
    is_leading = np.concatenate([cloud.column("is_leading") for cloud in clouds]).astype(bool)
    return classify(scores[is_scored], is_leading[is_scored])


def _pair_curve(clouds: list[Prediction]) -> Classification:
    """Score every pair of a high-pT hit with another hit of its event by their distance in the embedding."""
    nearness, is_same = [], []
    for cloud in clouds:
        particle = cloud.column("particle_id")
        anchors = np.flatnonzero((cloud.column("pt") > 0.9) & cloud.column("is_reconstructable"))
        squared = np.square(cloud.out).sum(1)
        distance = squared[anchors, None] + squared[None] - 2 * cloud.out[anchors] @ cloud.out.T
        is_other = anchors[:, None] != np.arange(len(particle))[None]
        nearness.append(-distance[is_other])
        is_same.append((particle[anchors, None] == particle[None])[is_other])
    return classify(np.concatenate(nearness), np.concatenate(is_same))
