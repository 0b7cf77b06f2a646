"""The training loop: batches → loss → gradients → optimiser step; after every epoch, validation and saving.

All randomness of a step comes from (seed, step, process), so that a resumed run needs no generator state to
repeat the losses of an undisturbed one to the last digit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from hepdata.errors import InputError, JobError
from hepdata.loader.batch import Batch
from hepdata.loader.stream import Loader
from hepdata.progress import Progress
from hepdata.storage.atomic import disk_errors
from hept.evaluation.evaluator import score_split
from hept.model.build import build_network
from hept.model.network import checkpoint_activations
from hept.objectives.objective import make_objective
from hept.runs.data import TrainingData
from hept.runs.folder import LAST, RunFolder
from hept.settings.fields import TrainConfig
from hept.training.average import MovingAverage
from hept.training.expected_time import RunLength
from hept.training.interrupt import Interrupt
from hept.training.log import TrainingLog
from hept.training.result import FitResult
from hept.training.run_state import RunState
from hept.training.schedule import Schedule


@dataclass
class Training:
    """The state of a run and the loop over it."""

    fabric: Fabric
    config: TrainConfig
    data: TrainingData
    folder: RunFolder
    progress: Progress
    threads: int

    def begin(self, *, resume: bool) -> None:
        """Make the network and optimiser, fresh or as they were saved."""
        config = self.config
        torch.manual_seed(config.seed)
        self.objective = make_objective(self.data.target, config.loss, only_metric=True)
        network = build_network(
            config.model, self.data.features, self.data.coords, is_embedding=self.objective.is_embedding
        )
        if config.checkpoint_activations:
            checkpoint_activations(network)
        optimizer = torch.optim.Adam(
            network.parameters(), lr=config.optimizer.lr, weight_decay=config.optimizer.weight_decay
        )
        compiled: Any = torch.compile(network, dynamic=True) if config.compile else network
        self.model, wrapped = self.fabric.setup(compiled, optimizer)
        self.state = RunState(
            config,
            self.data,
            self.folder,
            network,
            wrapped,
            _make_schedule(config, math.ceil(len(self.data.train) / config.accumulate)),
            MovingAverage(network, config.ema_decay) if config.ema_decay else None,
        )
        self._saved_at = time.monotonic()
        damages = self.state.restore() if resume else []
        if self.fabric.is_global_zero:
            if resume:
                self._put_aside(damages)
                position = self.state.position
                self.folder.forget_after(step=position.step, epoch=position.epoch)
                self.folder.keep_threads(self.threads)
            else:
                description = {"seed": config.seed, "threads": self.threads}
                self.folder.create(config, self.data.describe(self.folder.path) | description)
        if not resume:
            # So that a run killed in its first steps can be resumed too.
            self._save()
        self.log = TrainingLog(self.folder, self.progress, is_quiet=not self.fabric.is_global_zero)

    def _put_aside(self, damages: list[InputError]) -> None:
        """Rename damaged states: saving would otherwise keep them in the place of whole ones."""
        for damage in damages:
            path = Path(damage.where)
            self.progress.announce(
                f"warning: {path}: found {damage.found}; going on from step {self.state.position.step}"
            )
            with disk_errors(path):
                path.replace(path.with_suffix(".damaged"))

    def run(self) -> FitResult:
        """Train to the end, or until something stops it."""
        begun, number = time.perf_counter(), 0
        stopped = "early stopping" if self._has_stalled() else "finished"
        where = self.state.position
        per_epoch = self.state.schedule.steps_per_epoch
        n_steps = per_epoch * self.config.epochs
        self.log.start(RunLength(n_steps - where.step, per_epoch, self.config.max_minutes), done=where.step)
        try:
            with Interrupt() as interrupt:
                while where.epoch < self.config.epochs and stopped == "finished":
                    number = self._train_epoch(interrupt)
                    if not number:
                        self._end_epoch()
                        stopped = self._reason_to_stop(begun)
                        # Validation may take long: what came meanwhile need not wait for another step.
                        number, _ = self._exchange_requests(interrupt)
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
            seconds=time.perf_counter() - begun,
            stopped=stopped,
            threads=self.threads,
            is_first_process=self.fabric.is_global_zero,
            signal=number or None,
        )

    def _train_epoch(self, interrupt: Interrupt) -> int:
        """Train to the end of the epoch, or until a signal, whose number is returned."""
        where = self.state.position
        self.data.train.set_epoch(where.epoch)
        self.data.go_to(where.batches)
        self.model.train()
        for window in self._windows(self.data.train):
            self._step(window)
            where.batches += len(window)
            number, is_due = self._exchange_requests(interrupt)
            every = self.config.save_every_steps
            if number or is_due or (every and where.step % every == 0):
                self._save()
            if number:
                return number
        return 0

    def _exchange_requests(self, interrupt: Interrupt) -> tuple[int, bool]:
        """The number of a signal to any process, and whether it is time to save.

        All processes act on the same answer: one that stopped alone would leave the others waiting. A signal
        that comes during the exchange is kept, and found in the next one.
        """
        minutes = self.config.save_every_minutes
        is_due = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        requests: Any = torch.tensor([interrupt.number, is_due], dtype=torch.float64)
        if self.fabric.world_size > 1:
            requests = self.fabric.all_reduce(requests, reduce_op="max")
        number, should_save = requests.tolist()
        return int(number), bool(should_save)

    def _windows(self, loader: Loader) -> Iterator[list[Batch]]:
        """The batches of one optimiser step at a time."""
        window: list[Batch] = []
        for batch in self.log.time_waiting(loader):
            window.append(batch)
            if len(window) == self.config.accumulate:
                yield window
                window = []
        if window:
            yield window

    def _step(self, window: list[Batch]) -> None:
        """One optimiser step over the batches of `window` and of all processes, as if they were one batch."""
        where = self.state.position
        rate = self.state.schedule.rate(where.step)
        for group in self.state.optimizer.param_groups:
            group["lr"] = rate
        generator = self._seed_step()
        # On the accelerator the next batch travels while this one is computed on.
        window = [batch.to(self.fabric.device, non_blocking=True) for batch in window]
        count = self._sum_over_processes(float(sum(self.objective.count(batch) for batch in window)))
        loss = 0.0
        for position, batch in enumerate(window):
            with self.fabric.no_backward_sync(self.model, enabled=position + 1 < len(window)):
                out = self.model(batch.features, batch.coords, batch.offsets)
                share = self.objective.loss(out, batch, normaliser=max(count, 1.0), generator=generator)
                self._check(float(share.detach()), batch)
                # DDP takes the mean over processes where the sum of shares is meant.
                self.fabric.backward(share * self.fabric.world_size)
            loss += float(share.detach())
        loss = self._sum_over_processes(loss)
        norm = float(self._clip())
        if not math.isfinite(norm) or not math.isfinite(loss):
            self._diverged(f"a gradient of norm {norm}", window[-1])
        self.state.optimizer.step()
        self.state.optimizer.zero_grad(set_to_none=True)
        if self.state.average is not None:
            self.state.average.update(self.state.network)
        where.step += 1
        where.loss_sum, where.loss_steps = where.loss_sum + loss, where.loss_steps + 1
        n_points = sum(len(batch.features) for batch in window) * self.fabric.world_size
        self.log.step(where.step, where.epoch + 1, loss, rate, norm, n_points)

    def _seed_step(self) -> torch.Generator:
        """Dropout and random negatives depend on the seed, the step and the process, and on nothing else."""
        key = (self.config.seed * 1_000_003 + self.state.position.step) * 4_099 + self.fabric.global_rank
        # torch takes 64 bits.
        key %= 2**63
        torch.manual_seed(key)
        return torch.Generator().manual_seed(key + 1)

    def _sum_over_processes(self, value: float) -> float:
        if self.fabric.world_size == 1:
            return value
        total: Any = self.fabric.all_reduce(torch.tensor(value, dtype=torch.float64), reduce_op="sum")
        return float(total)

    def _clip(self) -> torch.Tensor:
        limit = self.config.optimizer.clip_norm or math.inf
        return torch.nn.utils.clip_grad_norm_(self.state.network.parameters(), limit)

    def _check(self, loss: float, batch: Batch) -> None:
        is_bad = not math.isfinite(loss) or loss > self.config.max_loss
        if self._sum_over_processes(float(is_bad)) > 0:
            self._diverged(f"a loss of {loss:.4g}" if is_bad else "a bad loss in another process", batch)

    def _diverged(self, found: str, batch: Batch) -> None:
        clouds = ", ".join(
            f"event {event} sector {sector}"
            for event, sector in zip(batch.event_id.tolist(), batch.sector.tolist(), strict=True)
        )
        saved = self.state.position.saved_step
        good = f"the last good checkpoint is {self.folder.path / LAST} (step {saved})"
        raise JobError(
            f"{self.folder.path}, step {self.state.position.step + 1}",
            found=f"{found} on {clouds}",
            expected=f"a finite loss below {self.config.max_loss:g}",
            remedy=f"{good}; lower optimizer.lr or set optimizer.clip_norm",
        )

    def _end_epoch(self) -> None:
        """Validate, keep the best weights, save."""
        where = self.state.position
        where.epoch, where.batches = where.epoch + 1, 0
        metrics: dict[str, float] = {}
        is_best = False
        is_last = where.epoch == self.config.epochs
        if where.epoch % self.config.validate_every == 0 or is_last:
            metrics = self._validate()
            value = metrics[self.objective.metric]
            self.state.schedule.end_epoch(value)
            is_best = value > where.best or where.best_epoch == 0
            if is_best:
                where.best, where.best_epoch = value, where.epoch
        train_loss = where.loss_sum / max(where.loss_steps, 1)
        where.loss_sum, where.loss_steps = 0.0, 0
        self.log.epoch(where.step, where.epoch, train_loss, metrics)
        self._save(metrics, is_best=is_best)

    def _validate(self) -> dict[str, float]:
        metrics: dict[str, float] = {}
        if self.fabric.is_global_zero:
            kept = self.state.average.swap_in(self.state.network) if self.state.average else None
            metrics = score_split(
                self.state.network, self.data.valid, self.objective, device=self.fabric.device
            )
            if self.state.average and kept is not None:
                self.state.average.swap_out(self.state.network, kept)
            self.model.train()
        received: dict[str, float] = self.fabric.broadcast(metrics)
        return received

    def _save(self, metrics: dict[str, float] | None = None, *, is_best: bool = False) -> None:
        self.state.position.saved_step = self.state.position.step
        if self.fabric.is_global_zero:
            self.state.save(metrics or {}, is_best=is_best)
        self._saved_at = time.monotonic()
        self.fabric.barrier()

    def _reason_to_stop(self, begun: float) -> str:
        if self._has_stalled():
            return "early stopping"
        minutes = self.fabric.broadcast((time.perf_counter() - begun) / 60)
        if self.config.max_minutes is not None and minutes >= self.config.max_minutes:
            return "time limit"
        return "finished"

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
