"""The Triton kernel of InfoNCE, in its interpreter and compiled without a GPU."""

import sys

import pytest
import torch

from hept.devices.triton_support import can_run_triton, has_triton
from hept.losses import number_particles
from hept.losses.infonce import _weigh_pairs
from hept.losses.particles import rank_particles, weigh_anchors


def test_loss_and_gradient_are_those_of_the_definition(interpret):
    for case, (value, gradient) in interpret("definition").items():
        # Measured: 8e-8 and 5e-7.
        assert value < 1e-6, case
        assert gradient < 2e-6, case


def test_random_negatives_are_those_of_the_draw(interpret):
    found = interpret("draws")
    value, gradient = found.pop("errors")
    assert value < 1e-6
    assert gradient < 2e-6
    assert all(found.values()), found


def test_edges(interpret):
    for case, is_right in interpret("edges").items():
        assert all(is_right), case


def test_bytes_are_those_that_the_kernel_gathers(interpret):
    for case, (formula, counted) in interpret("traffic").items():
        assert formula == counted, case


@pytest.mark.skipif(sys.platform != "linux", reason="needs memory that is not set aside")
def test_rows_and_pairs_beyond_2_to_the_31_are_found(interpret):
    found = interpret("large")
    assert all(found["moved"])
    assert all(found["same"])


def test_weights_are_those_of_the_plain_form(make_cloud):
    cloud = make_cloud(0)
    n_positives = cloud.positives.ptr.diff()
    weight, n_particles = weigh_anchors(n_positives, cloud.particle + 10**12, cloud.is_anchor)
    anchors = (cloud.is_anchor & (n_positives > 0)).nonzero().squeeze(1)
    expected = _weigh_pairs(anchors, cloud.positives, cloud.particle, None)
    torch.testing.assert_close(weight.double() / n_particles, expected, rtol=1e-6, atol=0)


def test_ranks_are_those_of_unique():
    generator = torch.Generator().manual_seed(0)
    particle = torch.randint(-(2**60), 2**60, (9,), generator=generator)[torch.arange(50) % 9]
    cloud = torch.randint(0, 3, (50,), generator=generator)
    pairs = torch.stack([cloud, particle], 1)
    expected = torch.unique(pairs, dim=0, return_inverse=True)[1]
    assert torch.equal(number_particles(particle, cloud), expected)
    assert torch.equal(rank_particles(particle), torch.unique(particle, return_inverse=True)[1])
    assert len(rank_particles(particle[:0])) == 0


def test_a_cpu_keeps_the_plain_form(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not can_run_triton(torch.zeros(3, 2))


@pytest.mark.skipif(not has_triton(), reason="needs Triton")
@pytest.mark.parametrize("capability", [80, 90])
def test_the_kernel_fits_the_gpu_it_is_compiled_for(capability):
    from benchmarks.bench_kernels import compile_loss

    for is_exact in (False, True):
        kernel = compile_loss(capability, is_exact=is_exact)
        assert kernel.fits
        assert kernel.spilled <= 32
