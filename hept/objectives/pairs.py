"""Groups of points with equal labels: InfoNCE over stored or mined pairs, and AP@k of the embedding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hepdata.loader.batch import Batch, PairTensors
from hepdata.schema import SCORED_PT, Target
from hept.losses import RandomNegatives, count_particles, info_nce, number_particles
from hept.losses.infonce import Similarity
from hept.losses.mining import count_partners, join_pairs, mine_negatives, pair_within_particles
from hept.metrics.figures_of_merit import Figure, make_figures
from hept.metrics.retrieval import find_neighbors
from hept.settings.train_config import LossConfig

PT_THRESHOLDS = (SCORED_PT, 0.5, 0.0)


@dataclass(frozen=True)
class PairsObjective:
    """InfoNCE, and AP@k.

    Attributes:
        target: Columns of the truth.
        tau: Temperature.
        similarity: Similarity of two embeddings, see `hept.losses.info_nce`.
        random_negatives: Random negative pairs in training, as a fraction of the others.
        negatives: "stored" in the dataset, "mined" in the embedding, or both.
        n_mined: Mined negatives of a point.
        mining_window: See `hept.losses.mining.mine_negatives`.
        pt_min: Anchors of the loss have a pT above this, if the target has a pT.
        low_pt_part: Part of the particles between that and 0.9 GeV that count in a training step.
        pt_thresholds: pT thresholds of AP@k; the first one chooses the best epoch.
        has_figures: Whether to compute the target's further figures of merit.
    """

    is_embedding: ClassVar[bool] = True
    metric_label: ClassVar[str] = "AP@k"

    target: Target
    tau: float = 0.05
    similarity: Similarity = "published"
    random_negatives: float = 0.2
    negatives: Literal["stored", "mined", "both"] = "stored"
    n_mined: int = 256
    mining_window: int | None = None
    pt_min: float = SCORED_PT
    low_pt_part: float = 1.0
    pt_thresholds: tuple[float, ...] = PT_THRESHOLDS
    has_figures: bool = False

    @classmethod
    def make(cls, target: Target, loss: LossConfig, *, only_metric: bool) -> PairsObjective:
        """The objective for a dataset's target."""
        return cls(
            target,
            tau=loss.tau,
            similarity=loss.similarity,
            random_negatives=loss.random_negatives,
            negatives=loss.negatives,
            n_mined=loss.n_mined,
            mining_window=loss.mining_window,
            pt_min=loss.pt_min,
            low_pt_part=loss.low_pt_part,
            pt_thresholds=PT_THRESHOLDS[:1] if only_metric else PT_THRESHOLDS,
            has_figures=not only_metric,
        )

    @property
    def needs_pairs(self) -> bool:
        """Whether the loss needs pair lists."""
        return self.negatives != "mined"

    @property
    def metric(self) -> str:
        """AP@k of the particles above the first threshold."""
        return _name("ap", None if self.target.pt is None else self.pt_thresholds[0])

    def count(self, batch: Batch) -> Tensor:
        """Particles with a positive pair."""
        particle, is_anchor = self._number(batch), self._is_anchor(batch)
        if self.needs_pairs:
            n_positives = _listed(batch.positives).ptr.diff()
        else:
            n_positives = count_partners(particle, is_anchor)
        return count_particles(n_positives, particle, is_anchor)

    def loss(
        self, out: Tensor, batch: Batch, *, normaliser: Tensor | None, generator: torch.Generator | None
    ) -> Tensor:
        """InfoNCE; random negatives only in training."""
        random = None
        if generator is not None and self.random_negatives > 0:
            random = RandomNegatives(self.random_negatives, batch.offsets, generator)
        particle, is_anchor = self._number(batch), self._is_anchor(batch)
        if generator is not None and self.low_pt_part < 1:
            is_drawn = torch.rand(len(particle), generator=generator) < self.low_pt_part
            # One draw for all points of a particle.
            is_scored = select_points(batch, self.target, SCORED_PT)
            is_anchor = is_anchor & (is_scored | is_drawn.to(out.device)[particle])
        return info_nce(
            out,
            self._positives(batch, particle, is_anchor),
            self._negatives(out, batch, particle, is_anchor),
            particle,
            is_anchor,
            tau=self.tau,
            similarity=self.similarity,
            random_negatives=random,
            normaliser=normaliser,
        )

    def scores(self) -> PairsScores:
        """AP@k at the thresholds."""
        figures = make_figures(self.target.figures) if self.has_figures else []
        return PairsScores(self.target, self.pt_thresholds, figures)

    def _positives(self, batch: Batch, particle: Tensor, is_anchor: Tensor) -> PairTensors:
        if self.needs_pairs:
            return _listed(batch.positives)
        return pair_within_particles(particle, is_anchor)

    def _negatives(self, out: Tensor, batch: Batch, particle: Tensor, is_anchor: Tensor) -> PairTensors:
        if self.negatives == "stored":
            return _listed(batch.negatives)
        mined = mine_negatives(
            out, particle, is_anchor, batch.offsets, n_negatives=self.n_mined, window=self.mining_window
        )
        return join_pairs(_listed(batch.negatives), mined, is_anchor) if self.needs_pairs else mined

    def _number(self, batch: Batch) -> Tensor:
        return number_particles(batch.columns[self.target.label], batch.cloud_index)

    def _is_anchor(self, batch: Batch) -> Tensor:
        return select_points(batch, self.target, self.pt_min)


@dataclass
class PairsScores:
    """Means over clouds of AP@k, and of precision and recall among the 19 nearest, by pT threshold."""

    target: Target
    pt_thresholds: tuple[float, ...]
    figures: list[Figure] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def add(self, out: Tensor, batch: Batch) -> None:
        """Add the clouds of a batch, each separately."""
        label = batch.columns[self.target.label]
        thresholds = self._thresholds()
        selected = torch.stack([select_points(batch, self.target, each or 0.0) for each in thresholds])
        for begin, end in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True):
            cloud = slice(begin, end)
            # One search serves all thresholds.
            found = find_neighbors(out[cloud], label[cloud], selected[:, cloud].any(0))
            self.values.append(torch.stack([found.average(each) for each in selected[:, cloud]]))
            for figure in self.figures:
                columns = {name: values[cloud].cpu().numpy() for name, values in batch.columns.items()}
                figure.add(columns, out[cloud].cpu().double().numpy())

    def result(self) -> dict[str, float]:
        """Means over the clouds that have a query."""
        found: dict[str, float] = {_name("ap", threshold): float("nan") for threshold in self._thresholds()}
        if self.values:
            table = torch.stack(self.values).cpu().double()  # (clouds, thresholds, 4)
            for position, threshold in enumerate(self._thresholds()):
                rows = table[table[:, position, 3] > 0, position]
                if len(rows):
                    means = zip(("ap", "precision19", "recall19"), rows[:, :3].mean(0).tolist(), strict=True)
                    found |= {_name(name, threshold): value for name, value in means}
        for figure in self.figures:
            found |= figure.result()
        return found

    def _thresholds(self) -> tuple[float | None, ...]:
        return (None,) if self.target.pt is None else self.pt_thresholds


def select_points(batch: Batch, target: Target, pt_min: float) -> Tensor:
    """(N,) bool: the selected points, above `pt_min` if the target has a pT."""
    is_chosen = (
        batch.columns[target.label] != 0 if target.selection is None else batch.columns[target.selection]
    )
    return is_chosen if target.pt is None else is_chosen & (batch.columns[target.pt] > pt_min)


def _name(figure: str, threshold: float | None) -> str:
    return figure if threshold is None else f"{figure}@{threshold:g}"


def _listed(pairs: PairTensors | None) -> PairTensors:
    if pairs is None:
        raise ValueError("the batch has no pair lists; this objective needs them: load with pairs=True")
    return pairs
