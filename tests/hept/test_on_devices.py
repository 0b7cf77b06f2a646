"""The model under torch.compile, and on a GPU that is not there."""

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from hept import HEPT

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
    # It captures the graph and runs it as it is; code for it is generated in the slow test below.
    counter = CompileCounter()
    check_compiled(make(), counter)
    # Torch may see once that a size differs; from then on it is a symbol.
    assert counter.frame_count <= 2


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "grouped", "native", "sdpa"])
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiled code for a CPU needs a C++ compiler")
def test_compiled_code_gives_the_same_numbers(backend):
    check_compiled(make(backend=backend), "inductor")


# Fake tensors need no GPU, but autograd asks for the device's streams, and fails where there is no device: a
# build without CUDA knows none, one with CUDA looks for a driver. This stands in for a GPU that does nothing.
# Of the hooks, torch takes those with the highest priority while it is imported; of the guards, the last.
DEVICE = """
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace at {
struct CUDAHooks : CUDAHooksInterface {
  CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return false; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  long versionRuntimeCuDNN() const override { return 0; }
};
C10_REGISTER_CLASS_WITH_PRIORITY(CUDAHooksRegistry, CUDAHooks, c10::REGISTRY_PREFERRED, CUDAHooks);
}
namespace c10::impl {
struct NoDevice : NoOpDeviceGuardImpl<DeviceType::CUDA> {
  DeviceIndex deviceCount() const noexcept override { return 1; }
  Device getDevice() const override { return Device(DeviceType::CUDA, 0); }
  Device exchangeDevice(Device) const override { return getDevice(); }
  Stream getStream(Device) const noexcept override { return Stream(Stream::DEFAULT, getDevice()); }
  Stream getDefaultStream(Device) const override { return Stream(Stream::DEFAULT, getDevice()); }
  Stream exchangeStream(Stream) const noexcept override { return Stream(Stream::DEFAULT, getDevice()); }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
};
}
extern "C" void use_no_device() {
  static c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::CUDA, new c10::impl::NoDevice());
}
"""

# Reading a value of a fake tensor (a host synchronisation) raises.
RUN_FAKE = """
import ctypes, sys
stand_in = ctypes.CDLL(sys.argv[1]) if sys.argv[1] else None
import torch
if stand_in:
    stand_in.use_no_device()
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from hept import HEPT
from hept import triton_devices
from hept.attention.blocks import Blocks
from hept.attention.grouped import compute_backward, compute_forward
from hept.attention.rows import Layout, Rows

def empty_like(tensor):
    is_trained = isinstance(tensor, torch.nn.Parameter)
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda", requires_grad=is_trained)

# Fake tensors run no kernel: Triton need not be there.
triton_devices.has_triton = lambda: True
variants = {"periods": {1: 6.28}}, {"kernel": "dot"}, {"and_coords": (), "n_hidden_codes": 2}
backends = "auto", "eager", "grouped", "triton", "sdpa", "flex"
for settings in (*variants, *({"backend": name} for name in backends)):
    model = HEPT(5, 3, 12, n_layers=1, hidden_dim=8, n_heads=2, **settings)
    with FakeTensorMode():
        state = {name: empty_like(p) for name, p in model.named_parameters()}
        state |= {name: empty_like(b) for name, b in model.named_buffers()}
        features, coords = torch.empty(1000, 5, device="cuda"), torch.empty(1000, 3, device="cuda")
        offsets = torch.empty(5, dtype=torch.int64, device="cuda")
        # Which fused kernel fits is a question to a driver; any kernel has the same shapes.
        with sdpa_kernel(SDPBackend.MATH):
            out = functional_call(model, state, (features, coords, offsets))
        assert out.shape == (1000, 12) and out.device.type == "cuda"
        loss = (out[:-1] - out[1:]).square().mean()
        loss.backward()
        assert all(state[name].grad.device.type == "cuda" for name, _ in model.named_parameters())

with FakeTensorMode():
    h, n, c, k, s = 2, 1000, 3, 12, 100
    shapes = (h, n, 8), (h, n, 8), (h, n, 6), (h, 2, n)
    rows, grads = (Rows(*(torch.empty(shape, device="cuda") for shape in shapes)) for _ in range(2))
    rows = Rows(rows.query, rows.key, rows.value, rows.place, torch.empty(h, n, device="cuda"))
    orders = [torch.empty(c, h, n, dtype=torch.int64, device="cuda") for _ in range(2)]
    position = torch.empty(k, s, dtype=torch.int64, device="cuda")
    layout = Layout(*orders, Blocks(position, position > 0, torch.empty(n, dtype=torch.int64, device="cuda")))
    out, total = torch.empty(h, n, 6, device="cuda"), torch.empty(h, n, device="cuda")
    compute_forward(rows, layout, out, total)
    compute_backward(rows, layout, out, out, total, grads)

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
"""


@pytest.fixture(scope="module")
def device_library(tmp_path_factory) -> str:
    """A library that makes torch believe in a GPU; nothing where there is one."""
    if torch.cuda.is_available():
        return ""
    if shutil.which("g++") is None:
        pytest.skip("a stand-in for a GPU needs a C++ compiler")
    folder, home = tmp_path_factory.mktemp("device"), Path(torch.__file__).parent
    (folder / "device.cpp").write_text(DEVICE)
    command = [
        "g++",
        "-std=c++20",
        "-shared",
        "-fPIC",
        f"-I{home / 'include'}",
        "device.cpp",
        "-o",
        "device.so",
    ]
    command += [f"-L{home / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{home / 'lib'}"]
    subprocess.run(command, cwd=folder, check=True)
    return str(folder / "device.so")


def test_forward_loss_and_backward_pass_on_a_fake_gpu_without_reading_a_value(device_library):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN_FAKE), device_library],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "passed"
