"""The head's activation: in torch, in Triton's interpreter, and compiled without a GPU."""

import pytest
import torch

from hept.devices.triton_support import has_triton
from hept.model.heads import NormedPerceptron


def test_values_and_gradients_of_all_shapes_are_those_of_torch(interpret):
    for shape, found in interpret("shapes").items():
        assert max(found) < 2e-6, (shape, found)


def test_a_product_in_half_precision_is_normalised_in_float32(interpret):
    out, d_x, *others = interpret("half")
    assert max(out, *others) < 2e-6
    # Rounded to 11 bits.
    assert 1e-5 < d_x < 1e-3


def test_extremes(interpret):
    assert all(interpret("extremes").values()), interpret("extremes")


def test_bytes_are_those_that_the_kernels_move(interpret):
    for formula, counted in interpret("traffic").values():
        assert formula == counted


def test_layers_are_linear_norm_and_tanh_and_the_last_one_linear():
    torch.manual_seed(0)
    model, x = NormedPerceptron([3, 7, 7, 2]), torch.randn(11, 3)
    expected = torch.nn.Sequential(*model)(x)
    assert len(model) == 7
    torch.testing.assert_close(model(x), expected)


@pytest.mark.skipif(not has_triton(), reason="needs Triton")
@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_fit_the_gpu_they_are_compiled_for(capability):
    from benchmarks.bench_kernels import compile_activation

    for kernel in compile_activation(capability):
        assert kernel.fits
        assert kernel.spilled <= 32
