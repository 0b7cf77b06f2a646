"""Triton's block attention: in its interpreter, compiled without a GPU, and its cost formulas."""

import sys
from dataclasses import replace

import pytest
import torch

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels import attend_auto
from hept.attention.kernels import triton as triton_backend
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.plain import attend_plain
from hept.attention.kernels.triton import attend_triton
from hept.attention.kernels.triton_launch import BACKWARD, FORWARD, Sizes, find_grid
from hept.devices import triton_support
from hept.devices.triton_support import has_triton

needs_triton = pytest.mark.skipif(not has_triton(), reason="needs Triton")
LAUNCHES = FORWARD, BACKWARD
PUBLISHED = Sizes(H=8, M=24, V=24, P=6, S=100)


def draw(n=50, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(2, n, width, generator=generator, dtype=dtype) for width in (5, 5, 4)]
    orders = [torch.rand(3, 2, n, generator=generator).argsort(-1) for _ in range(2)]
    clouds = Clouds.from_offsets(torch.tensor([0, n]), n)
    return Operands(*rows), Layout(*orders, cut_into_blocks(clouds, 7))


def test_values_and_gradients_of_all_shapes_are_those_of_the_definition(interpret):
    for shape, found in interpret("shapes").items():
        # Measured: 4e-7 for outputs, 9e-7 for gradients.
        assert max(found.values()) < 2e-6, (shape, found)


def test_large_coordinates_and_nan(interpret):
    found = interpret("extremes")
    assert found.pop("query that is not a number is seen")
    assert found.pop("other cloud is untouched")
    for case, errors in found.items():
        assert max(errors.values()) < 1e-6, (case, errors)


def test_bytes_are_those_that_the_kernels_gather(interpret):
    for case, found in interpret("traffic").items():
        for formula, counted in found.values():
            assert formula == counted, (case, found)


@pytest.mark.skipif(sys.platform != "linux", reason="needs memory that is not set aside")
def test_rows_beyond_2_to_the_31_are_found(interpret):
    found = interpret("large")
    assert all(found["moved"])
    assert all(found["same"])


def test_orders_of_fused_sort_keys_are_those_of_the_tables(interpret):
    for case, is_same in interpret("orders").items():
        assert all(is_same), case


@pytest.mark.slow
def test_more_than_65535_blocks(interpret):
    assert all(interpret("many_blocks")["same"])


@pytest.mark.slow
def test_a_thousand_points_at_the_published_sizes(interpret):
    found = interpret("published")["1,000 points"]
    # Measured: 2e-7 for outputs, 3e-7 for gradients.
    assert max(found.values()) < 2e-6, found


def test_blocks_are_on_the_grid_axis_without_a_limit():
    for launch in LAUNCHES:
        first, second = find_grid(PUBLISHED, 70_000, launch)
        assert first >= 70_000
        assert second == PUBLISHED.H


def test_64_bits_where_a_row_begins_beyond_31():
    # Queries, keys, values and outputs have 192 numbers per point.
    most = 2**31 // 192
    assert not PUBLISHED.needs_64_bits(most)
    assert PUBLISHED.needs_64_bits(most + 1)
    assert replace(PUBLISHED, H=1, M=400).needs_64_bits(2**31 // 400 + 1)


def test_all_rows_of_a_block_are_owned():
    for size in (1, 15, 16, 17, 63, 64, 65, 100, 128, 300):
        sizes = replace(PUBLISHED, S=size)
        for launch in LAUNCHES:
            owned, parts = sizes.count_rows(launch), sizes.count_parts(launch) // launch.sides
            assert (parts - 1) * owned < size <= parts * owned


def test_a_cpu_is_refused_and_left_to_others(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    rows, layout = draw()
    with pytest.raises(
        ValueError, match=r"backend 'triton': found .*, got torch.float32 on cpu; choose 'auto'"
    ):
        attend_triton(rows, layout)


def test_without_triton_there_is_none(monkeypatch):
    for module in (triton_backend, triton_support):
        monkeypatch.setattr(module, "has_triton", lambda: False)
    rows, layout = draw(dtype=torch.float64)
    with pytest.raises(ValueError, match=r"backend 'triton': found no Triton, got torch.float64 on cpu"):
        attend_triton(rows, layout)
    assert torch.equal(attend_auto(rows, layout), attend_plain(rows, layout))


@needs_triton
@pytest.mark.parametrize(
    "capability", [80, 90, *(pytest.param(other, marks=pytest.mark.slow) for other in (86, 89, 100, 120))]
)
def test_kernels_fit_the_gpu_they_are_compiled_for(capability):
    from benchmarks.bench_kernels import compile_attention, compile_keys

    kernels = [compile_keys(PUBLISHED, capability)]
    for n_coords in (6, 8):
        kernels += compile_attention(replace(PUBLISHED, P=n_coords), capability)
    for kernel in kernels:
        assert kernel.fits, kernel
        assert kernel.spilled <= 32, kernel
