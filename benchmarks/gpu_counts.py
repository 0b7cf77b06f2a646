"""Launches, bytes, synchronisations and memory without a GPU: `python -m benchmarks.gpu_counts LIBRARY`.

Prints JSON for `bench_gpu`. Our side is the published model with the fused loss and the optimiser. The
literal side is the authors' forward pass; its training step uses the mean square of the outputs instead of a
loss, because the sizes in their loss depend on the data.
"""

from __future__ import annotations

import json
import sys

from benchmarks.stand_in import end_process, load_stand_in

if __name__ == "__main__":
    load_stand_in(sys.argv[1])

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call

from hepdata.loader.batch import PairTensors
from hept import HEPT
from hept.devices import triton_support
from hept.devices.traffic import TrafficCounter
from hept.losses import RandomNegatives, info_nce, number_particles
from hept.paper import literal_model

N_POINTS, N_POSITIVES, N_NEGATIVES = 60_000, 10, 256


def count_all() -> dict[str, dict[str, float]]:
    """Forward pass and training step, ours and the literal ones."""
    # Fake tensors run no kernel, so Triton need not be installed.
    triton_support.has_triton = lambda: True
    torch.manual_seed(0)
    model, literal = HEPT(15, 6, 12), literal_model.draw_state()
    with FakeTensorMode(), torch.device("cuda"):
        features, coords = torch.empty(N_POINTS, 15), torch.empty(N_POINTS, 6)
        offsets = torch.empty(2, dtype=torch.int64)
        parameters = {name: _empty(each).requires_grad_() for name, each in model.named_parameters()}
        state = parameters | {name: _empty(each) for name, each in model.named_buffers()}
        weights = {name: _empty(each).requires_grad_(name != "regions") for name, each in literal.items()}
        found = {}
        for is_step, name in ((False, "forward"), (True, "step")):
            model.train(is_step)
            with torch.set_grad_enabled(is_step), TrafficCounter() as counter:
                out = functional_call(model, state, (features, coords, offsets))
                if is_step:
                    _finish_step(out, list(parameters.values()), offsets)
            found[f"{name}, ours"] = _describe(counter)
            with torch.set_grad_enabled(is_step), TrafficCounter() as counter:
                out = literal_model.forward(weights, features, coords)
                if is_step:
                    out.square().mean().backward()
            found[f"{name}, literal"] = _describe(counter)
    return found


def _finish_step(out: Tensor, parameters: list[Tensor], offsets: Tensor) -> None:
    """Loss over lists of the published length, backward pass, clipping and Adam."""
    integers = [torch.empty(N_POINTS + extra, dtype=torch.int64) for extra in (1, 1, 0, 0)]
    positive_ptr, negative_ptr, particle, cloud = integers
    positives, negatives = (
        torch.empty(length * N_POINTS, dtype=torch.int32) for length in (N_POSITIVES, N_NEGATIVES)
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


def _describe(counter: TrafficCounter) -> dict[str, float]:
    return {
        "launches": counter.n_launches,
        "GB": counter.n_bytes / 1e9,
        "waits": counter.n_waits,
        "peak GB": counter.peak / 1e9,
    }


if __name__ == "__main__":
    print(json.dumps(count_all()))
    end_process()
