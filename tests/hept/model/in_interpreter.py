"""The head's activation in Triton's interpreter: `python in_interpreter.py NAME` prints JSON.

It runs in its own process, since Triton chooses its interpreter when it is imported.
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch
from torch.nn import functional

from benchmarks.counted_gathers import count_gathers
from benchmarks.traffic import count_activation, count_activation_backward
from hept.model.activation import ROWS, STEPS, _backward, activate

EPSILON = 1e-5
SHAPES = {
    "head": (40, 256),
    "several programs, the last of them not full": (2 * ROWS * STEPS + 3, 12),
    "width that is no power of two": (9, 33),
    "one point": (1, 256),
    "one column": (5, 1),
}


def draw(n, dim, dtype=torch.float32):
    generator = torch.Generator().manual_seed(n + dim)
    rows = 3 * torch.randn(n, dim, generator=generator) + 5
    parameters = [torch.randn(dim, generator=generator) for _ in range(3)]
    return [rows.to(dtype), *parameters]


def define(x, bias, gamma, beta):
    return torch.tanh(functional.layer_norm(x + bias, x.shape[1:], gamma, beta, EPSILON))


def differentiate(function, inputs):
    """Output and gradients of all inputs."""
    inputs = [each.clone().requires_grad_() for each in inputs]
    out = function(*inputs)
    weight = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weight).sum(), inputs)]


def errors(inputs):
    """Largest error of output and gradients against float64, relative to the largest value."""
    found = differentiate(lambda *given: activate(*given, EPSILON), inputs)
    exact = differentiate(define, [each.double() for each in inputs])
    assert [each.dtype for each in found[1:]] == [each.dtype for each in inputs]
    return [float((a - b).abs().max() / (b.abs().max() + 1e-6)) for a, b in zip(found, exact, strict=True)]


def shapes():
    return {name: errors(draw(*shape)) for name, shape in SHAPES.items()}


def half():
    return errors(draw(40, 256, torch.float16))


def extremes():
    """Rows of equal numbers have no variance; small and large arguments of tanh keep their digits."""
    x, bias, gamma, beta = draw(16, 8)
    same = activate(torch.ones_like(x), torch.zeros(8), gamma, beta, EPSILON)
    spread = torch.logspace(-6, 3, 8)
    found = activate(x, bias, torch.zeros(8), spread, EPSILON)
    empty = differentiate(lambda *given: activate(*given, EPSILON), [x[:0], bias, gamma, beta])
    x[3] = torch.nan
    lost = activate(x, bias, gamma, beta, EPSILON).isnan().any(1)
    return {
        "no variance": torch.allclose(same, beta.tanh().expand_as(same), atol=1e-6),
        "digits": torch.allclose(found[0].double(), spread.double().tanh(), rtol=1e-6, atol=0),
        "no point": [list(each.shape) for each in empty] == [[0, 8], [0, 8], [8], [8], [8]],
        "not a number": lost.nonzero().tolist() == [[3]],
    }


def traffic():
    """Bytes by formula and as counted."""
    inputs = draw(2 * ROWS * STEPS + 3, 12)
    with count_gathers() as forward:
        out = activate(*inputs, EPSILON)
    with count_gathers() as backward:
        _backward(out, *inputs, EPSILON)
    return {
        "forward": [count_activation(*inputs).n_bytes, forward.n_bytes],
        "backward": [count_activation_backward(out, *inputs).n_bytes, backward.n_bytes],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps(globals()[sys.argv[1]]()))
