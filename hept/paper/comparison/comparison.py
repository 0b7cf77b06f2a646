"""The whole comparison: every measurement is stored and not repeated by the same command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from hepdata.errors import JobError
from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress
from hepdata.schema import Target
from hept.devices.choice import choose_device
from hept.model.dataset_checks import check_split
from hept.objectives.objective import Objective, make_objective
from hept.paper.comparison.accuracy import Interrupted, score_trial
from hept.paper.comparison.latency import measure_latency
from hept.paper.comparison.scaling import SCALING_MODELS, ScalingLimits, list_sizes, may_go_on, measure_size
from hept.paper.comparison.step_cost import measure_cost
from hept.paper.comparison.store import Result, ResultStore
from hept.paper.comparison.trainings import (
    ABLATIONS,
    Budget,
    PlannedTraining,
    plan_accuracy,
    plan_sensitivity,
    plan_trial,
)
from hept.runs.training_data import TrainingData, open_training_data
from hept.settings.train_config import LossConfig, TrainConfig


@dataclass(frozen=True)
class ComparisonSettings:
    """What to compare.

    Attributes:
        models: Names of systems in the catalog.
        tables: Names of the tables to make.
        budget: Budget of each training.
        repeats: Repetitions of each timing.
        limits: Limits of the scaling figure.
        device: Device on which systems are trained, timed and scored, see `hept.devices.choice`.
    """

    models: tuple[str, ...]
    tables: tuple[str, ...]
    budget: Budget
    repeats: int = 5
    limits: ScalingLimits = field(default_factory=ScalingLimits)
    device: str = "auto"


@dataclass
class Findings:
    """Results of a comparison.

    Attributes:
        task: Task of the dataset.
        target: Training target of the dataset.
        source: Location of the dataset.
        points_per_cloud: Mean number of points per cloud of the dataset.
        settings: Settings of the comparison.
        accuracy: Test scores by system.
        cost: Time, operations and memory by system.
        grid: Test scores and cost of HEPT by (tables, block size).
        latency: Milliseconds of HEPT's parts.
        scaling: Cost by system and size.
        failed: Reasons of failure by system.
        is_stopped: Whether the user stopped the comparison before the end.
    """

    task: str
    target: Target
    source: str
    points_per_cloud: float
    settings: ComparisonSettings
    accuracy: dict[str, Result] = field(default_factory=dict)
    cost: dict[str, Result] = field(default_factory=dict)
    grid: dict[tuple[int, int], tuple[Result | None, Result]] = field(default_factory=dict)
    latency: Result | None = None
    scaling: dict[str, list[Result]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    is_stopped: bool = False

    @property
    def objective(self) -> Objective:
        """The objective of the trainings."""
        return make_objective(self.target, LossConfig())

    @property
    def metric(self) -> str:
        """The score of the paper's tables."""
        return self.objective.metric

    @property
    def metric_label(self) -> str:
        """Label of the metric in tables and figures."""
        return f"{self.objective.metric_label}, %"


def run_comparison(
    dataset: Dataset,
    base: TrainConfig,
    settings: ComparisonSettings,
    out: Path,
    *,
    progress: Progress,
    announce: Callable[[str], None],
) -> Findings:
    """Train or load every system, measure it, and collect the numbers.

    Raises:
        InputError: The dataset does not fit the settings, or a split is empty.
    """
    check_split(dataset, "test")
    counts, data = dataset.manifest.statistics(), open_training_data(base, dataset.root.location)
    comparison = _Comparison(
        dataset,
        base,
        settings,
        out,
        ResultStore(out / "results"),
        data,
        progress,
        announce,
        Findings(
            base.task,
            data.target,
            str(dataset.root.location),
            counts.n_points / counts.n_clouds,
            settings,
        ),
    )
    try:
        comparison.run()
    except Interrupted:
        comparison.findings.is_stopped = True
    return comparison.findings


@dataclass
class _Comparison:
    dataset: Dataset
    base: TrainConfig
    settings: ComparisonSettings
    out: Path
    store: ResultStore
    data: TrainingData
    progress: Progress
    announce: Callable[[str], None]
    findings: Findings

    def run(self) -> None:
        """Run cheap measurements first, so that a stopped comparison has results for most tables."""
        tables, models = self.settings.tables, self.settings.models
        plan = {trial.key: trial for trial in plan_accuracy(self.base, self.settings.budget, models)}
        if "time" in tables or "memory" in tables:
            for name, trial in plan.items():
                if name != "random":
                    self.findings.cost[name] = self._cost(trial)
        if "latency" in tables:
            self.findings.latency = self._latency()
        if "scaling" in tables:
            self._scale()
        if "accuracy" in tables:
            self._score_all(plan)
        if "ablation" in tables:
            self._score_all(
                {trial.key: trial for trial in plan_accuracy(self.base, self.settings.budget, ABLATIONS)}
            )
        if "sensitivity" in tables:
            for sizes, trial in plan_sensitivity(self.base, self.settings.budget).items():
                self.findings.grid[sizes] = (self._score(trial), self._cost(trial))

    def _score_all(self, plan: dict[str, PlannedTraining]) -> None:
        for name, trial in plan.items():
            found = self.findings.accuracy.get(name) or self._score(trial)
            if found is not None:
                self.findings.accuracy[name] = found

    def _score(self, trial: PlannedTraining) -> Result | None:
        fingerprint = trial.fingerprint(self.dataset.fingerprint)
        found = self.store.get("accuracy", trial.key, fingerprint)
        if found is not None:
            return found
        self.announce(f"training {trial.key}")
        try:
            run = self.out / "runs" / f"{trial.key}-{fingerprint}"
            found = score_trial(trial, self.dataset, run, self.settings.device, self.progress)
        except JobError as error:
            # A diverged system must not stop the others; the next call tries it again.
            self.findings.failed[trial.key] = str(error)
            self.announce(f"{trial.key} failed: {error}")
            return None
        self.store.put("accuracy", trial.key, fingerprint, found)
        self.announce(f"{trial.key}: {self.findings.metric} {100 * found[self.findings.metric]:.2f} %")
        return found

    def _cost(self, trial: PlannedTraining) -> Result:
        fingerprint = trial.fingerprint(f"{self.dataset.fingerprint} {self._machine()}")
        found = self.store.get("cost", trial.key, fingerprint)
        if found is None:
            found = measure_cost(trial.config, self.data, self._batch(), self.settings.repeats)
            self.store.put("cost", trial.key, fingerprint, found)
            self.announce(
                f"timing {trial.key}: train {found['train_ms']:.0f} ms, test {found['test_ms']:.0f} ms"
            )
        return found

    def _latency(self) -> Result:
        trial = plan_trial(self.base, "hept", self.settings.budget, kind="hept")
        fingerprint = trial.fingerprint(f"{self.dataset.fingerprint} {self._machine()}")
        found = self.store.get("latency", "hept", fingerprint)
        if found is None:
            found = measure_latency(trial.config, self.data, self._batch(), self.settings.repeats)
            self.store.put("latency", "hept", fingerprint, found)
        return found

    def _scale(self) -> None:
        for name in SCALING_MODELS:
            curve: list[Result] = []
            for n_points in list_sizes(self.settings.limits.max_points):
                found = self.store.get("scaling", f"{name}-{n_points}", self._machine())
                if found is None:
                    if not may_go_on(curve[-1] if curve else None, self.settings.limits):
                        self.announce(f"scaling {name}: ends before {n_points:,} points (time or memory)")
                        break
                    found = measure_size(name, n_points, self._device)
                    self.store.put("scaling", f"{name}-{n_points}", self._machine(), found)
                    self.announce(f"scaling {name}, {n_points:,} points: {found['test_ms']:.0f} ms")
                curve.append(found)
            self.findings.scaling[name] = curve

    @property
    def _device(self) -> torch.device:
        return choose_device(self.settings.device)

    def _batch(self) -> Batch:
        """The first cloud of the test split."""
        loader = self.dataset["test"].loader(
            1,
            features=self.data.features,
            coords=self.data.coords,
            pairs=self.findings.objective.needs_pairs,
        )
        return next(iter(loader)).to(self._device)

    def _machine(self) -> str:
        """Key of timings: they are repeated on another device, with other threads or another torch."""
        return f"{self._device}-{torch.get_num_threads()}threads-torch{torch.__version__}"
