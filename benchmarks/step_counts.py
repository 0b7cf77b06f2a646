"""What a step of the trainer costs a GPU, counted without one: `python -m benchmarks.step_counts LIBRARY`.

Prints JSON: launches and synchronisations of a step by task and precision, from batches on the host to the
figures of the step on the host; and its operators whose result depends on the order of threads.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import Any, Literal, cast
from unittest.mock import patch

from benchmarks.stand_in import end_process, load_stand_in

if __name__ == "__main__":
    load_stand_in(sys.argv[1])

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.traffic import TrafficCounter
from hepdata.loader.batch import Batch, PairTensors
from hepdata.progress import Silent
from hepdata.schema import PILEUP, TRACKING
from hept.devices import triton_support
from hept.devices.choice import Precision
from hept.devices.determinism import deterministic
from hept.devices.transfer import move_batches
from hept.losses import RandomNegatives
from hept.model.network import InPrecision
from hept.model.transformer import HEPT
from hept.objectives.objective import make_objective
from hept.settings.load import load_config
from hept.training.interrupt import Interrupt
from hept.training.loop import Training
from hept.training.optimizers import make_optimizer
from hept.training.run_state import RunState
from hept.training.schedule import Schedule
from hept.training.step import OptimiserStep

N_POINTS, N_BATCHES = 1000, 2
PRECISIONS: tuple[Precision, ...] = ("32-true", "bf16-mixed", "16-mixed")
SCHEMAS = {"tracking": TRACKING, "pileup": PILEUP}


# Operators of CUDA whose result depends on the order of threads. For the first ones torch raises where it is
# told to be deterministic, for the others it takes another way (torch.use_deterministic_algorithms).
ALWAYS_ATOMIC = {"put", "histc", "scatter_reduce", "kthvalue", "median", "segment_reduce", "index_reduce"}
ATOMIC_UNLESS_TOLD = {"index_add", "index_put", "_unsafe_index_put", "scatter_add", "scatter", "index_copy"}


class AtomicOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects the names of operators on floating numbers whose result depends on the order of threads."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, and look at it."""
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        is_floating = bool(tensors) and tensors[0].is_floating_point()
        has_weights = name == "bincount" and len(tensors) > 1
        is_told = torch.are_deterministic_algorithms_enabled()
        is_atomic = name in ALWAYS_ATOMIC or has_weights
        # A sum of integers is the same in any order.
        # The last argument says whether its sums are exact.
        is_atomic = is_atomic or (name == "hept::triton_info_nce" and not args[-1])
        if is_atomic or (is_floating and (name == "cumsum" or (name in ATOMIC_UNLESS_TOLD and not is_told))):
            self.names.add(name)
        return func(*args, **(kwargs or {}))


def count_steps() -> dict[str, dict[str, Any]]:
    """Launches and waits of the second step, by task and precision; the first one also sets things up."""
    # Fake tensors run no kernel, so that neither Triton nor a GPU for half precision need be there.
    triton_support.has_triton = lambda: True
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *_: True
    # Drawn on the host, whose tensors are fake here too.
    RandomNegatives.choose_seed = lambda _: 1  # type: ignore[method-assign]
    return {f"{task}, {each}": _count(task, each) for task in SCHEMAS for each in PRECISIONS}


def _count(task: str, precision: Precision) -> dict[str, Any]:
    device = torch.device("cuda")
    with FakeTensorMode():
        training = _make_training(task, precision, device)
        for _ in range(2):
            with TrafficCounter() as counter:
                window = list(move_batches([_make_batch(task) for _ in range(N_BATCHES)], device))
                training._step(window, Interrupt())
                training._queued.popleft().figures.read()
        atomic = {}
        for is_on in (False, True):
            with deterministic(is_on), AtomicOperators() as found:
                training._step(list(move_batches([_make_batch(task)], device)), Interrupt())
            atomic[is_on] = sorted(found.names)
    return {
        "launches": counter.n_launches,
        "waits": counter.n_waits,
        "atomic": atomic[False],
        "atomic if deterministic": atomic[True],
    }


def _make_training(task: str, precision: Precision, device: torch.device) -> Training:
    """A training that has begun, without the folder and the dataset, which a step does not touch."""
    changes = {"precision": precision, "optimizer.clip_norm": 1, "ema_decay": 0.9}
    config = load_config(f"{task}-demo", changes)
    fabric = Fabric(accelerator="cpu", devices=1)
    training = Training(fabric, config, cast(Any, None), cast(Any, None), Silent(), 1)
    is_pairs = task == "tracking"
    with device:
        head: Literal["embedding", "classification"] = "embedding" if is_pairs else "classification"
        n_classes = 0 if is_pairs else 7
        # The second is the moving average: a copy of the first would have a fake mode of its own.
        network, average = (
            HEPT(5, 2, 12 if is_pairs else 1, head=head, n_classes=n_classes, periods={1: 6.28})
            for _ in range(2)
        )
    objective = make_objective(SCHEMAS[task].target, config.loss, only_metric=True)
    model = fabric.setup_module(InPrecision(network, precision), move_to_device=False)
    optimizer = make_optimizer(network, config.optimizer)
    is_scaled = precision == "16-mixed"
    # The scaler looks for a GPU.
    with patch.object(torch.cuda, "is_available", lambda: True):
        training.make_step = OptimiserStep(
            fabric, model, network, optimizer, objective, device, is_scaled=is_scaled, clip_norm=1.0
        )
    schedule = Schedule(1e-3, "constant", 1, 1)
    training.state = RunState(
        config,
        cast(Any, None),
        cast(Any, None),
        network,
        optimizer,
        training.make_step.scaler,
        schedule,
        average,
    )
    training._queued, training._saved_at = deque(), 0.0
    training._begun = training._minutes_before = training._used = 0.0
    return training


def _make_batch(task: str) -> Batch:
    n = N_POINTS
    columns: dict[str, Tensor] = {
        column.name: torch.empty(n, dtype=getattr(torch, str(column.dtype).replace("?", "bool")))
        for column in SCHEMAS[task].columns
    }
    pairs = [
        PairTensors(torch.empty(n + 1, dtype=torch.int64), torch.empty(length * n, dtype=torch.int32))
        for length in (10, 256)
    ]
    return Batch(
        features=torch.empty(n, 5),
        coords=torch.empty(n, 2),
        offsets=torch.empty(3, dtype=torch.int64),
        cloud_index=torch.empty(n, dtype=torch.int64),
        event_id=torch.empty(2, dtype=torch.int64),
        sector=torch.empty(2, dtype=torch.int64),
        columns=columns,
        positives=pairs[0] if task == "tracking" else None,
        negatives=pairs[1] if task == "tracking" else None,
    )


if __name__ == "__main__":
    print(json.dumps(count_steps()))
    end_process()
