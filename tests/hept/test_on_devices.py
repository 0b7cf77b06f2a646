"""The model under torch.compile, and on a stand-in for a GPU."""

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from benchmarks.stand_in import build_stand_in, can_build
from hept import HEPT

ROOT = Path(__file__).parents[2]
BATCHES = ([0, 70, 150], [0, 1, 33], [0, 5, 200, 301], [0, 40, 91], [0, 400, 520])


def make(**settings):
    torch.manual_seed(0)
    settings = {"n_layers": 1, "hidden_dim": 8, "n_heads": 2, "block_size": 16, "n_regions": 6, **settings}
    return HEPT(5, 3, 12, dropout=0.0, **settings)


def run(model, compiled, offsets):
    torch.manual_seed(offsets[-1])
    features, coords = torch.randn(offsets[-1], 5), torch.randn(offsets[-1], 3)
    out = compiled(features, coords, torch.tensor(offsets))
    model.zero_grad()
    out.square().mean().backward()
    return out.detach(), [p.grad.clone() for p in model.parameters()]


def check_compiled(model, backend):
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for offsets in BATCHES:
        out, grads = run(model, compiled, offsets)
        expected, expected_grads = run(model, model, offsets)
        assert torch.allclose(out, expected, atol=1e-5)
        for a, b in zip(grads, expected_grads, strict=True):
            assert torch.allclose(a, b, atol=1e-4, rtol=1e-3)


def test_the_whole_model_is_one_graph_for_all_sizes():
    # This backend captures the graph and runs it without code generation; the slow test below compiles it.
    counter = CompileCounter()
    check_compiled(make(), counter)
    # Torch may recompile once when a size changes; afterwards the size is symbolic.
    assert counter.frame_count <= 2


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["plain", "native"])
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiled code for a CPU needs a C++ compiler")
def test_compiled_code_gives_the_same_numbers(backend):
    check_compiled(make(backend=backend), "inductor")


# Reading a value of a fake tensor (a host synchronisation) raises.
RUN_FAKE = """
import sys
from benchmarks.stand_in import end_process, load_stand_in
load_stand_in(sys.argv[1])
import torch
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from hept import HEPT
from hept.devices import triton_support

def empty_like(tensor, device="cuda"):
    is_trained = isinstance(tensor, torch.nn.Parameter)
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=device, requires_grad=is_trained)

# Fake tensors run no kernel: Triton need not be there.
triton_support.has_triton = lambda: True
variants = {"periods": {1: 6.28}}, {"kernel": "dot"}, {"and_coords": (), "n_hidden_codes": 2}
backends = "auto", "plain", "triton"
for settings in (*variants, *({"backend": name} for name in backends)):
    model = HEPT(5, 3, 12, n_layers=1, hidden_dim=8, n_heads=2, **settings)
    with FakeTensorMode():
        state = {name: empty_like(p) for name, p in model.named_parameters()}
        state |= {name: empty_like(b) for name, b in model.named_buffers()}
        features, coords = torch.empty(1000, 5, device="cuda"), torch.empty(1000, 3, device="cuda")
        offsets = torch.empty(5, dtype=torch.int64, device="cuda")
        out = functional_call(model, state, (features, coords, offsets))
        assert out.shape == (1000, 12) and out.device.type == "cuda"
        loss = (out[:-1] - out[1:]).square().mean()
        loss.backward()
        assert all(state[name].grad.device.type == "cuda" for name, _ in model.named_parameters())

# Apple's GPUs have no float64. (The stand-in has no backward pass there.)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

class WithoutFloat64(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tensors = [each for each in tree_leaves(out) if isinstance(each, torch.Tensor)]
        assert all(each.dtype != torch.float64 for each in tensors), func
        return out

for settings in variants:
    model = HEPT(5, 3, 12, n_layers=1, hidden_dim=8, n_heads=2, **settings)
    with FakeTensorMode(), WithoutFloat64():
        names = *model.named_parameters(), *model.named_buffers()
        state = {name: empty_like(each, "mps") for name, each in names}
        features, coords = torch.empty(1000, 5, device="mps"), torch.empty(1000, 3, device="mps")
        offsets = torch.empty(5, dtype=torch.int64, device="mps")
        assert functional_call(model, state, (features, coords, offsets)).device.type == "mps"

from hepdata.loader.batch import PairTensors
from hept.losses import RandomNegatives, info_nce, number_particles

with FakeTensorMode():
    n = 1000
    integers = [torch.empty(shape, dtype=torch.int64, device="cuda") for shape in (n + 1, n + 1, n, n, 3)]
    positive_ptr, negative_ptr, particle, cloud, offsets = integers
    lists = [torch.empty(length, dtype=torch.int32, device="cuda") for length in (5000, 256 * n)]
    x = torch.empty(n, 12, device="cuda", requires_grad=True)
    loss = info_nce(
        x,
        PairTensors(positive_ptr, lists[0]),
        PairTensors(negative_ptr, lists[1]),
        number_particles(particle, cloud),
        particle > 0,
        random_negatives=RandomNegatives(0.2, offsets, seed=1),
    )
    loss.backward()
    assert x.grad.shape == x.shape
print("passed")
end_process()
"""


@pytest.fixture(scope="module")
def device_library(tmp_path_factory) -> str:
    """The library of the stand-in for a GPU; empty if there is a real GPU."""
    if torch.cuda.is_available():
        return ""
    if not can_build():
        pytest.skip("a stand-in for a GPU needs a C++ compiler")
    return str(build_stand_in(tmp_path_factory.mktemp("device")))


def test_forward_loss_and_backward_pass_on_a_fake_gpu_without_reading_a_value(device_library):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN_FAKE), device_library],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "passed"


def test_launches_bytes_waits_and_memory_at_60000_points(device_library):
    command = [sys.executable, "-m", "benchmarks.gpu_counts", device_library]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    counted = json.loads(done.stdout)
    forward, step = counted["forward, ours"], counted["step, ours"]
    assert forward["launches"] <= 250
    assert step["launches"] <= 900
    assert forward["waits"] == step["waits"] == 0
    assert forward["peak GB"] < 0.6
    assert step["peak GB"] < 3
    assert forward["GB"] <= 6
    assert step["GB"] <= 20
    # A seventh and a sixth of the bytes of the authors' steps, which are counted without a loss.
    assert forward["GB"] < counted["forward, literal"]["GB"] / 7
    assert step["GB"] < counted["step, literal"]["GB"] / 6


def test_a_step_of_the_trainer_waits_once_and_if_deterministic_adds_in_a_fixed_order(device_library):
    command = [sys.executable, "-m", "benchmarks.step_counts", device_library]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    counted = json.loads(done.stdout)
    assert len(counted) == 6
    for case, counts in counted.items():
        # Of two accumulated batches. What waits is the reading of its figures, when the next step is queued.
        assert counts["waits"] == 1
        assert counts["launches"] <= 2 * 900
        assert counts["atomic if deterministic"] == []
        # Without the setting only InfoNCE adds up in any order; cuBLAS promises equal digits only with it.
        assert counts["atomic"] == (["hept::triton_info_nce"] if "tracking" in case else [])
    # Autocast is at work.
    assert counted["tracking, 16-mixed"]["launches"] > counted["tracking, 32-true"]["launches"]


def test_the_plan_of_memory_is_what_is_counted(device_library):
    command = [sys.executable, "-m", "benchmarks.memory_counts", device_library]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    counted = json.loads(done.stdout)
    assert len(counted) == 7
    for counts in counted.values():
        assert counts["formula"] == pytest.approx(counts["kept"], rel=0.02)
        assert counts["formula, peak"] == pytest.approx(counts["peak"], rel=0.02)
