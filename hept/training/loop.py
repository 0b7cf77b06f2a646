"""The training loop: batches → loss → gradients → optimiser step; after every epoch, validation and saving.

All randomness of a step comes from (seed, step, process), so that a resumed run needs no generator state to
repeat the losses of an undisturbed one to the last digit.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from hepdata.errors import InputError, JobError
from hepdata.loader.batch import Batch
from hepdata.loader.stream import Loader
from hepdata.progress import Progress
from hepdata.storage.atomic import disk_errors
from hept.attention.kernels import check_backend
from hept.devices.transfer import HostCopy, move_batches
from hept.evaluation.evaluator import score_split
from hept.model.build import build_network
from hept.model.network import InPrecision, Network, checkpoint_activations
from hept.model.trained import TrainedModel
from hept.objectives.objective import make_objective
from hept.runs.folder import LAST, RunFolder
from hept.runs.training_data import TrainingData
from hept.settings.train_config import TrainConfig
from hept.training.expected_time import RunLength
from hept.training.interrupt import Interrupt
from hept.training.log import TrainingLog
from hept.training.loggers import open_logger
from hept.training.optimizers import make_optimizer
from hept.training.queued import QueuedStep, StepFigures, is_bad
from hept.training.result import FitResult
from hept.training.run_state import RunState
from hept.training.schedule import Schedule
from hept.training.step import OVERFLOWS_IN_A_ROW, OptimiserStep


@dataclass
class Training:
    """The state of a run and the loop over it."""

    fabric: Fabric
    config: TrainConfig
    data: TrainingData
    folder: RunFolder
    progress: Progress
    threads: int
    init: TrainedModel | None = None

    def begin(self, *, resume: bool) -> None:
        """Make network and optimiser, new or from the saved state."""
        config = self.config
        check_backend(
            config.model.backend,
            self.fabric.device,
            torch.float64 if config.precision == "64-true" else torch.float32,
        )
        torch.manual_seed(config.seed)
        self.objective = make_objective(self.data.target, config.loss, only_metric=True)
        network = build_network(
            config.model, self.data.features, self.data.coords, is_embedding=self.objective.is_embedding
        )
        if self.init is not None:
            # The published checkpoint has no preparation of inputs.
            target = network if isinstance(self.init.network, Network) else network.body
            target.load_state_dict(self.init.network.state_dict())
        if config.checkpoint_activations:
            checkpoint_activations(network)
        compiled: Any = torch.compile(network, dynamic=True) if config.compile else network
        self.model = self.fabric.setup_module(InPrecision(compiled, config.precision))
        average = deepcopy(network) if config.ema_decay else None
        self.validated = InPrecision(average or network, config.precision)
        settings = config.optimizer
        optimizer = make_optimizer(network, settings)
        self.make_step = OptimiserStep(
            self.fabric,
            self.model,
            network,
            optimizer,
            self.objective,
            self.fabric.device,
            is_scaled=config.precision == "16-mixed",
            clip_norm=settings.clip_norm,
        )
        self.state = RunState(
            config,
            self.data,
            self.folder,
            network,
            optimizer,
            self.make_step.scaler,
            _make_schedule(config, math.ceil(len(self.data.train) / config.accumulate)),
            average,
        )
        self._queued: deque[QueuedStep] = deque()
        # While a GPU computes a step, the host reads the results of the previous one.
        self._lag = 0 if self.fabric.device.type == "cpu" else 1
        self._overflows = 0
        self._saved_at = time.monotonic()
        damages = self.state.restore() if resume else []
        self._minutes_before, self._begun = self.state.position.minutes, time.perf_counter()
        self._used = self._share_time()
        if self.fabric.is_global_zero:
            if resume:
                self._put_aside(damages)
                position = self.state.position
                self.folder.forget_after(step=position.step, epoch=position.epoch)
                self.folder.keep_threads(self.threads)
            else:
                description: dict[str, object] = {"seed": config.seed, "threads": self.threads}
                if self.init is not None:
                    description["init"] = self.init.source
                self.folder.create(config, self.data.describe(self.folder.path) | description)
        if not resume:
            # So that a run killed in its first steps can be resumed too.
            self._save()
        is_quiet = not self.fabric.is_global_zero
        logger = None if is_quiet else open_logger(config, self.folder.path, self.progress.announce)
        self.log = TrainingLog(self.folder, self.progress, is_quiet=is_quiet, logger=logger)

    def _put_aside(self, damages: list[InputError]) -> None:
        """Rename damaged states: saving would otherwise keep them instead of intact ones."""
        for damage in damages:
            path = Path(damage.where)
            self.progress.announce(
                f"warning: {path}: found {damage.found}; continuing from step {self.state.position.step}"
            )
            with disk_errors(path):
                path.replace(path.with_suffix(".damaged"))

    def run(self) -> FitResult:
        """Train to the end, or until something stops it."""
        number, where = 0, self.state.position
        # Make at least one step, so that there is a model even with a tiny time limit.
        stopped = self._reason_to_stop() if where.step else "finished"
        n_steps = self.state.schedule.steps_per_epoch * self.config.epochs
        self.log.start(RunLength(n_steps - where.step, self.config.max_minutes), done=where.step)
        try:
            with Interrupt() as interrupt:
                while where.epoch < self.config.epochs and stopped == "finished":
                    number = self._train_epoch(interrupt)
                    if not number:
                        self._end_epoch()
                        stopped = self._reason_to_stop()
                        # Validation may take long: react now to signals that arrived meanwhile.
                        number = self._exchange_signals(interrupt)
                    if number:
                        stopped = "interrupted"
        finally:
            self.log.finish()
        return FitResult(
            run=self.folder.path,
            metric=self.objective.metric,
            best=where.best if where.best_epoch else None,
            best_epoch=where.best_epoch or None,
            epochs=where.epoch,
            steps=where.step,
            seconds=time.perf_counter() - self._begun,
            stopped=stopped,
            threads=self.threads,
            is_first_process=self.fabric.is_global_zero,
            signal=number or None,
            skipped=where.skipped,
        )

    def _train_epoch(self, interrupt: Interrupt) -> int:
        """Train to the end of the epoch or of the time, or until a signal, whose number is returned."""
        where, every = self.state.position, self.config.save_every_steps
        self.data.train.set_epoch(where.epoch)
        self.data.go_to(where.batches)
        self.model.train()
        for window in self._windows(self.data.train):
            self._step(window, interrupt)
            where.batches += len(window)
            number, is_due = self._read_steps(keep=self._lag)
            if self.fabric.world_size == 1:
                # With one process, there is no need to exchange it first.
                number = number or interrupt.number
            if number or is_due or (every and where.step % every == 0):
                self._save()
            if number:
                return number
            if self._used >= 1:
                break
        number, _ = self._read_steps(keep=0)
        if number:
            self._save()
        return number

    def _windows(self, loader: Loader) -> Iterator[list[Batch]]:
        """The batches of one optimiser step at a time."""
        window: list[Batch] = []
        for batch in move_batches(self.log.time_waiting(loader), self.fabric.device):
            window.append(batch)
            if len(window) == self.config.accumulate:
                yield window
                window = []
        if window:
            yield window

    def _step(self, window: list[Batch], interrupt: Interrupt) -> None:
        """Queue one optimiser step and the exchange of its figures between processes."""
        where = self.state.position
        rate = self.state.schedule.rate(where.step, self._used)
        figures = self.make_step(window, rate, self._seed_step())
        if self.state.average is not None:
            # torch's AveragedModel does the same, but its counter makes the host wait for the device.
            update: Any = get_ema_multi_avg_fn(self.config.ema_decay)  # type: ignore[no-untyped-call]
            update(list(self.state.average.parameters()), list(self.state.network.parameters()), 0)
        where.step += 1
        # Filled on the device: a copy from the host would wait for it.
        told = interrupt.number, self._is_due(), self._measure_used()
        requests = [figures.new_full((1,), float(value)) for value in told]
        figures = self._gather(torch.cat([figures, *requests]))
        self._queued.append(
            QueuedStep(
                step=where.step,
                epoch=where.epoch + 1,
                rate=rate,
                clouds=[(batch.event_id, batch.sector) for batch in window],
                n_points=sum(batch.n_points for batch in window) * self.fabric.world_size,
                figures=HostCopy(figures),
                rank=self.fabric.global_rank,
            )
        )

    def _read_steps(self, *, keep: int) -> tuple[int, bool]:
        """Read the figures of all queued steps but the last `keep`, and check and log them.

        Returns:
            The number of a signal to any process, and whether it is time to save. All processes act on the
            same answer: one that stopped alone would leave the others waiting. A signal that comes after its
            step was queued is found with the next one.

        Raises:
            JobError: A loss was too large or not finite.
        """
        number, is_due = 0, False
        while len(self._queued) > keep:
            queued = self._queued.popleft()
            figures = queued.read()
            self._check(queued, figures)
            where = self.state.position
            where.loss_sum, where.loss_steps = where.loss_sum + figures.loss, where.loss_steps + 1
            self.log.step(queued.step, queued.epoch, figures.loss, queued.rate, figures.norm, queued.n_points)
            number, is_due = max(number, figures.signal), is_due or figures.is_due
            self._used = figures.used
        return number, is_due

    def _is_due(self) -> bool:
        minutes = self.config.save_every_minutes
        return minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes

    def _measure_used(self) -> float:
        """Part of the run's time that is over, by the clock of this process."""
        minutes = self._minutes_before + (time.perf_counter() - self._begun) / 60
        self.state.position.minutes = minutes
        return 0.0 if self.config.max_minutes is None else minutes / self.config.max_minutes

    def _share_time(self) -> float:
        """The part of the time that is over by the clock of the first process, so that all stop together."""
        used: float = self.fabric.broadcast(self._measure_used())
        return used

    def _gather(self, values: Tensor) -> Tensor:
        """The values of every process, one row each, on the device."""
        if self.fabric.world_size == 1:
            return values.unsqueeze(0)
        rows: Any = self.fabric.all_gather(values)
        return rows  # type: ignore[no-any-return]

    def _exchange_signals(self, interrupt: Interrupt) -> int:
        """The number of a signal to any process."""
        return int(self._gather(torch.tensor([interrupt.number])).max())

    def _seed_step(self) -> torch.Generator:
        """Dropout and random negatives depend on the seed, the step and the process, and on nothing else."""
        key = (self.config.seed * 1_000_003 + self.state.position.step) * 4_099 + self.fabric.global_rank
        # torch takes 64 bits.
        key %= 2**63
        torch.manual_seed(key)
        return torch.Generator().manual_seed(key + 1)

    def _check(self, queued: QueuedStep, figures: StepFigures) -> None:
        """Stop a run that has diverged; steps skipped because float16 overflowed are counted."""
        where, limit = self.state.position, self.config.max_loss
        batch = figures.find_bad(limit)
        if batch is not None:
            own = figures.shares[queued.rank][batch]
            found = f"a loss of {own:.4g}" if is_bad(own, limit) else "a bad loss in another process"
            raise self._diverged(f"{found} on {queued.name_clouds(batch)}", queued)
        if math.isfinite(figures.norm):
            self._overflows = 0
            return
        self._overflows += 1
        if not self.make_step.is_scaled or self._overflows > OVERFLOWS_IN_A_ROW:
            raise self._diverged(f"a gradient of norm {figures.norm} on {queued.name_clouds(-1)}", queued)
        where.skipped += 1

    def _diverged(self, found: str, queued: QueuedStep) -> JobError:
        saved = self.state.position.saved_step
        good = f"the last good checkpoint is {self.folder.path / LAST} (step {saved})"
        return JobError(
            f"{self.folder.path}, step {queued.step}",
            found=found,
            expected=f"a finite loss below {self.config.max_loss:g}",
            remedy=f"{good}; lower optimizer.lr or set optimizer.clip_norm",
        )

    def _end_epoch(self) -> None:
        """Validate, keep the best weights, save."""
        where = self.state.position
        where.epoch, where.batches = where.epoch + 1, 0
        metrics: dict[str, float] = {}
        is_best = False
        is_last = where.epoch == self.config.epochs or self._used >= 1
        if where.epoch % self.config.validate_every == 0 or is_last:
            metrics = self._validate()
            # Validation takes time too.
            self._used = self._share_time()
            value = metrics[self.objective.metric]
            self.state.schedule.end_epoch(value)
            # An undefined figure (no query, one class) is worse than any other, and no better than the next.
            is_best = value > where.best or math.isnan(where.best) or where.best_epoch == 0
            if is_best:
                where.best, where.best_epoch = value, where.epoch
        train_loss = where.loss_sum / max(where.loss_steps, 1)
        where.loss_sum, where.loss_steps = 0.0, 0
        self.log.epoch(where.step, where.epoch, train_loss, metrics)
        self._save(metrics, is_best=is_best)

    def _validate(self) -> dict[str, float]:
        metrics: dict[str, float] = {}
        if self.fabric.is_global_zero:
            metrics = score_split(self.validated, self.data.valid, self.objective, device=self.fabric.device)
            self.model.train()
        received: dict[str, float] = self.fabric.broadcast(metrics)
        return received

    def _save(self, metrics: dict[str, float] | None = None, *, is_best: bool = False) -> None:
        """Save the state, after checking all steps up to now."""
        self._read_steps(keep=0)
        self.state.position.saved_step = self.state.position.step
        if self.fabric.is_global_zero:
            self.state.save(metrics or {}, is_best=is_best)
        self._saved_at = time.monotonic()
        self.fabric.barrier()

    def _reason_to_stop(self) -> str:
        if self._has_stalled():
            return "early stopping"
        return "time limit" if self._used >= 1 else "finished"

    def _has_stalled(self) -> bool:
        where, patience = self.state.position, self.config.early_stopping
        return (
            patience is not None and where.epoch - where.best_epoch >= patience * self.config.validate_every
        )


def _make_schedule(config: TrainConfig, steps_per_epoch: int) -> Schedule:
    settings = config.optimizer
    return Schedule(
        lr=settings.lr,
        kind=settings.schedule,
        steps_per_epoch=steps_per_epoch,
        n_steps=steps_per_epoch * config.epochs,
        warmup_steps=settings.warmup_steps,
        factor=settings.factor,
        step_epochs=settings.step_epochs,
        patience=settings.patience,
    )
