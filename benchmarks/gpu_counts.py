"""What a pass costs a GPU, counted without one: `python -m benchmarks.gpu_counts LIBRARY [POINTS]`.

Prints launches, bytes, synchronisations, memory and operations as JSON, for `bench_gpu` and `roofline`. Our
side is the published model with the fused loss and the optimiser. The literal side is the authors' forward
pass; its training step uses the mean square of the outputs instead of a loss, because the sizes in their
loss depend on the data.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from benchmarks.stand_in import end_process, load_stand_in

if __name__ == "__main__":
    load_stand_in(sys.argv[1])

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from benchmarks.traffic import TrafficCounter
from hepdata.loader.batch import PairTensors
from hept import HEPT
from hept.devices import triton_support
from hept.losses import RandomNegatives, info_nce, number_particles
from hept.paper import literal_model

N_POINTS, N_POSITIVES, N_NEGATIVES = 60_000, 10, 256
# Difference, square and sum of the distance of a pair, and the same again for its gradient, by dimension.
OPERATIONS_A_PAIR = 2 * 3 * 12


def count_all(n_points: int = N_POINTS) -> dict[str, dict[str, float]]:
    """Forward pass and training step, ours and the literal ones; and our forward pass without Triton."""
    # Fake tensors run no kernel, so Triton need not be installed.
    triton_support.has_triton = lambda: True
    torch.manual_seed(0)
    model, literal = HEPT(15, 6, 12), literal_model.draw_state()
    with FakeTensorMode(), torch.device("cuda"):
        features, coords = torch.empty(n_points, 15), torch.empty(n_points, 6)
        offsets = torch.empty(2, dtype=torch.int64)
        parameters = {name: _empty(each).requires_grad_() for name, each in model.named_parameters()}
        state = parameters | {name: _empty(each) for name, each in model.named_buffers()}
        weights = {name: _empty(each).requires_grad_(name != "regions") for name, each in literal.items()}
        found = {}
        for is_step, name in ((False, "forward"), (True, "step")):
            model.train(is_step)
            with torch.set_grad_enabled(is_step), TrafficCounter() as counter, OperationCounter() as work:
                out = functional_call(model, state, (features, coords, offsets))
                if is_step:
                    _finish_step(out, list(parameters.values()), offsets)
            found[f"{name}, ours"] = _describe(counter, work)
            if is_step:
                n_pairs = (N_POSITIVES + 1.2 * N_NEGATIVES) * n_points
                found[f"{name}, ours"]["GFLOP"] += OPERATIONS_A_PAIR * n_pairs / 1e9
            with torch.set_grad_enabled(is_step), TrafficCounter() as counter, OperationCounter() as work:
                out = literal_model.forward(weights, features, coords)
                if is_step:
                    out.square().mean().backward()
            found[f"{name}, literal"] = _describe(counter, work)
        plain = HEPT(15, 6, 12, backend="plain").eval()
        triton_support.has_triton = lambda: False
        with torch.no_grad(), TrafficCounter() as counter, OperationCounter() as work:
            functional_call(plain, state, (features, coords, offsets))
        found["forward, ours without Triton"] = _describe(counter, work)
    return found


def _finish_step(out: Tensor, parameters: list[Tensor], offsets: Tensor) -> None:
    """Loss over lists of the published length, backward pass, clipping and Adam."""
    n_points = len(out)
    integers = [torch.empty(n_points + extra, dtype=torch.int64) for extra in (1, 1, 0, 0)]
    positive_ptr, negative_ptr, particle, cloud = integers
    positives, negatives = (
        torch.empty(length * n_points, dtype=torch.int32) for length in (N_POSITIVES, N_NEGATIVES)
    )
    loss = info_nce(
        out,
        PairTensors(positive_ptr, positives),
        PairTensors(negative_ptr, negatives),
        number_particles(particle, cloud),
        particle > 0,
        random_negatives=RandomNegatives(0.2, offsets, seed=1),
    )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
    torch.optim.Adam(parameters, fused=True).step()


def _empty(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype)


class OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations of products, in float32 and in float64."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_dtype: Counter[torch.dtype] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, and count it."""
        out, packet = func(*args, **(kwargs or {})), func.overloadpacket
        if packet is torch.ops.hept.triton_attention_backward:
            self.by_dtype[torch.float32] += _count_backward(*args)
        elif packet in flop_registry:
            tensor = next(each for each in tree_leaves(out) if isinstance(each, Tensor))
            self.by_dtype[tensor.dtype] += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        return out


def _count_backward(*inputs: Tensor) -> int:
    """Of the fused backward pass: both of its kernels, by query and by key, compute the weights again.

    Weights, their gradient and that of queries; then weights, their gradient and those of keys and values.
    """
    _grad, _out, _total, query, _key, value, coords, order, _key_order, position, *_ = inputs
    dim, n_blocks_of_all = query.shape[-1] + coords.shape[-2], order.shape[0] * order.shape[1] * len(position)
    return int(2 * n_blocks_of_all * position.shape[1] ** 2 * (4 * dim + 3 * value.shape[-1]))


def _describe(counter: TrafficCounter, work: OperationCounter) -> dict[str, float]:
    return {
        "launches": counter.n_launches,
        "GB": counter.n_bytes / 1e9,
        "waits": counter.n_waits,
        "peak GB": counter.peak / 1e9,
        "GFLOP": work.by_dtype[torch.float32] / 1e9,
        "GFLOP of float64": work.by_dtype[torch.float64] / 1e9,
    }


if __name__ == "__main__":
    print(json.dumps(count_all(*map(int, sys.argv[2:]))))
    end_process()
