"""Training: a configuration and a dataset enter, a run folder leaves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from lightning_fabric import Fabric

from hepdata.errors import HeptError
from hepdata.loader.dataset import DatasetLike
from hepdata.progress import Progress, Silent
from hept.devices.choice import check_count, choose_device
from hept.devices.determinism import deterministic
from hept.devices.out_of_memory import TRAINING_REMEDY, memory_errors
from hept.devices.precision import exact_products
from hept.devices.threads import choose_threads, use_threads
from hept.model.trained import TrainedModel
from hept.runs.folder import RunFolder
from hept.runs.lock import lock_run
from hept.runs.training_data import open_training_data
from hept.settings.train_config import TrainConfig
from hept.training.loop import Training
from hept.training.result import FitResult

__all__ = ["FitResult", "Training", "fit"]


def fit(
    config: TrainConfig,
    dataset: DatasetLike,
    out: Path,
    *,
    init: TrainedModel | None = None,
    progress: Progress | None = None,
    resume: bool = False,
    device: str = "auto",
    devices: int = 1,
    nodes: int = 1,
    threads: int | None = None,
    strategy: str = "auto",
) -> FitResult:
    """Train a model.

    Args:
        config: What to train.
        dataset: The dataset, its folder or its URL.
        out: Run folder. One that holds an unfinished run of the same settings and dataset goes on.
        init: Model whose weights training starts from; it has the network and inputs of `config`.
        progress: Listener.
        resume: There must be a saved state in `out` to go on from.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto": a GPU if there is one.
        devices: Processes of a node, one device each.
        nodes: Nodes.
        threads: Of each process on a CPU; None takes those of a resumed run, else see `choose_threads`.
        strategy: How processes work together; "auto" is DDP where there are several.

    Raises:
        InputError: There is no such device, the dataset does not fit, there is nothing to resume, the folder
            holds something else, or another process writes it.
        JobError: The loss diverged, memory did not suffice, or the run folder cannot be written.
    """
    chosen = choose_device(device)
    check_count(chosen, devices)
    fabric = Fabric(
        accelerator=chosen.type,
        devices=[chosen.index] if ":" in str(chosen) else devices,
        num_nodes=nodes,
        strategy=strategy,
        # Fabric's half precision would cast coordinates too; `InPrecision` does it instead.
        precision="64-true" if config.precision == "64-true" else "32-true",
    )
    if fabric.world_size > 1 or devices * nodes > 1:
        fabric.launch()
    folder, listener = RunFolder(out), progress or Silent()
    with ExitStack() as stack:

        def take_folder() -> bool:
            stack.enter_context(lock_run(out, tell=listener.announce))
            return folder.is_begun(config, resume=resume)

        is_begun = _ask_first(fabric, take_folder)
        data = open_training_data(
            config,
            dataset,
            inputs=folder.read_inputs() if is_begun else None,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
        )
        if is_begun and threads is None:
            # The last digits of sums depend on the number of threads.
            threads = folder.read_threads()
        # All processes use the number of the first process.
        threads = fabric.broadcast(choose_threads(threads, reserved=config.data.workers, processes=devices))
        training = Training(fabric, config, data, folder, listener, threads, init)
        if config.compile:
            # Compiled code keeps the precision of products that it was compiled with.
            stack.enter_context(exact_products())
        stack.enter_context(deterministic(config.deterministic))
        with use_threads(threads), memory_errors(out, remedy=TRAINING_REMEDY):
            training.begin(resume=is_begun)
            return training.run()


def _ask_first(fabric: Fabric, question: Callable[[], bool]) -> bool:
    """Run in the first process; all processes get its result or its error."""
    answer, error = False, None
    if fabric.is_global_zero:
        try:
            answer = question()
        except HeptError as found:
            error = found
    answer, error = fabric.broadcast((answer, error))
    if error is not None:
        raise error
    return answer
