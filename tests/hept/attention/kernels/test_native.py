from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels import attend_auto, native
from hept.attention.kernels.native import attend_native, can_attend, count_lanes, limit_lanes
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.plain import attend_plain

needs_loops = pytest.mark.skipif(count_lanes() == 0, reason="hept was installed without a C++ compiler")


@pytest.fixture(params=[16, 8, 4], ids=lambda lanes: f"{lanes} lanes")
def lanes(request):
    if count_lanes() < request.param:
        pytest.skip(f"this processor has {count_lanes()} lanes")
    limit_lanes(request.param)
    assert count_lanes() == request.param
    yield request.param
    limit_lanes(16)


def draw(sizes, dim=5, coords=3, values=4, heads=2, tables=3, block=7, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    n = int(offsets[-1])
    clouds = Clouds.from_offsets(offsets, n)

    def order():
        # Any order within each cloud.
        key = torch.rand(tables, heads, n, generator=generator) + clouds.index
        return key.argsort(-1)

    rows = Operands(
        torch.randn(heads, n, dim, generator=generator),
        torch.randn(heads, n, dim, generator=generator),
        torch.randn(heads, n, values, generator=generator),
        scale * torch.randn(heads, coords, n, generator=generator) if coords else None,
    )
    return rows, Layout(order(), order(), cut_into_blocks(clouds, block))


def as_double(rows):
    coords = rows.coords.double() if rows.coords is not None else None
    return Operands(rows.query.double(), rows.key.double(), rows.value.double(), coords)


def tensors(rows):
    return [t for t in (rows.query, rows.key, rows.value, rows.coords) if t is not None]


def run(attend, rows, layout):
    """Output and gradients of all inputs."""
    inputs = [t.detach().clone().requires_grad_() for t in tensors(rows)]
    out = attend(Operands(*inputs), layout)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weight).sum(), inputs)]


def assert_same(rows, layout, rtol=2e-5):
    exact = run(attend_plain, as_double(rows), layout)
    for a, b in zip(run(attend_native, rows, layout), exact, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).abs().max() <= rtol * b.abs().max() + 1e-5


@needs_loops
@pytest.mark.parametrize("block", [1, 3, 8, 15, 16, 17, 33, 100])
def test_values_and_gradients_are_those_of_the_definition(lanes, block):
    assert_same(*draw([130, 0, 1, 40], block=block))


WIDTHS = [(1, 0, 1), (16, 0, 15), (24, 6, 24), (15, 1, 16), (32, 1, 33)]


@needs_loops
@pytest.mark.parametrize(("dim", "coords", "values"), WIDTHS)
def test_rows_of_any_width(lanes, dim, coords, values):
    assert_same(*draw([90], dim=dim, coords=coords, values=values, block=20, scale=0.3))


@needs_loops
@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4).filter(any),
    dim=st.integers(1, 40),
    coords=st.integers(0, 5),
    values=st.integers(1, 40),
    heads=st.integers(1, 3),
    tables=st.integers(1, 3),
    block=st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_any_shape(seed, **shape):
    # Short distances, so that no sum consists only of tiny numbers.
    rows, layout = draw(seed=seed, scale=0.3, **shape)
    assert_same(Operands(0.3 * rows.query, 0.3 * rows.key, rows.value, rows.coords), layout, rtol=1e-4)


@needs_loops
@pytest.mark.parametrize("scale", [3.0, 10.0, 100.0])
def test_keys_that_are_far_from_some_queries_or_all(lanes, scale):
    assert_same(*draw([300], block=60, scale=scale))


@needs_loops
def test_small_differences_of_large_coordinates_are_precise(lanes):
    rows, layout = draw([200], block=40)
    # Coordinates near 20,000, where float32 has steps of two thousandths.
    rows.coords.div_(8).add_(20_000)
    assert_same(rows, layout, rtol=1e-4)


@needs_loops
def test_small_differences_of_large_features_are_precise(lanes):
    rows, layout = draw([200], block=40)
    rows.query.add_(3000)
    rows.key.add_(3000)
    assert_same(rows, layout, rtol=1e-3)


@needs_loops
def test_a_query_far_from_all_keys_gives_finite_results(lanes):
    rows, layout = draw([60], block=30)
    rows.coords[:, :, 7] = 1e15
    out, *grads = run(attend_native, rows, layout)
    assert all(grad.isfinite().all() for grad in (out, *grads))
    # The point shares a block with its own key in some table, or has no near key at all.
    is_alone = (out[:, 7] - rows.value[:, 7]).abs().amax(1) < 1e-6
    assert (is_alone | (out[:, 7].abs().amax(1) < 1e-9)).all()
    assert (grads[3][:, :, 7] == 0).all()


@needs_loops
def test_nan_stays_within_its_blocks(lanes):
    rows, layout = draw([60, 40], block=20)
    # An unusual bit pattern of NaN.
    rows.query[:, 3] = torch.tensor(0x7FC00001, dtype=torch.int32).view(torch.float32)
    rows.key[:, 9], rows.value[:, 12] = torch.nan, torch.nan
    before = attend_native(draw([60, 40], block=20)[0], layout)
    after = attend_native(rows, layout)
    assert after[:, 3].isnan().all()
    assert torch.equal(before[:, 60:], after[:, 60:])


@needs_loops
def test_nan_propagates_also_if_all_keys_are_far(lanes):
    rows, layout = draw([60], block=30, tables=1, scale=1000.0)
    rows.query[:, 10:30] = torch.nan
    out = attend_native(rows, layout)
    assert out[:, 10:30].isnan().all()
    assert out[:, 30:].isfinite().all()


@needs_loops
def test_heads_side_by_side_in_memory_are_the_same_heads():
    rows, layout = draw([50], heads=3)
    turned = Operands(*(t.movedim(0, 1).contiguous().movedim(1, 0) for t in tensors(rows)))
    assert torch.equal(attend_native(rows, layout), attend_native(turned, layout))


@needs_loops
def test_threads_change_nothing():
    rows, layout = draw([300], heads=5, block=50)
    before, results = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2, 7):
            torch.set_num_threads(n_threads)
            results.append(run(attend_native, rows, layout))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@needs_loops
def test_what_does_not_fit_together_is_refused():
    rows, layout = draw([50])
    for wrong in (
        Operands(rows.query, rows.key[:, :49], rows.value, rows.coords),
        Operands(rows.query, rows.key, rows.value[:1], rows.coords),
        Operands(rows.query, rows.key, rows.value, rows.coords.mT),
    ):
        with pytest.raises(ValueError, match=r"got queries \(2, 50, 5\), .*need \(H, N, M\) twice"):
            attend_native(wrong, layout)


@needs_loops
@pytest.mark.parametrize("which", ["key", "value", "coords"])
def test_rows_of_several_precisions_are_left_to_torch(which):
    rows, layout = draw([50])
    mixed = replace(rows, **{which: getattr(rows, which).double()})
    assert not can_attend(mixed)
    assert torch.allclose(attend_auto(mixed, layout).float(), attend_native(rows, layout), atol=1e-5)


@needs_loops
def test_auto_takes_the_loops_for_float32_and_torch_for_the_rest():
    rows, layout = draw([50])
    assert torch.equal(attend_auto(rows, layout), attend_native(rows, layout))
    assert torch.equal(attend_auto(as_double(rows), layout), attend_plain(as_double(rows), layout))
    with pytest.raises(ValueError, match=r"computes float32 on a CPU only; got torch.float64"):
        attend_native(as_double(rows), layout)


def test_without_a_compiler_torch_does_it(monkeypatch):
    monkeypatch.setattr(native, "_library", None)
    rows, layout = draw([50])
    assert not can_attend(rows)
    assert torch.equal(attend_auto(rows, layout), attend_plain(rows, layout))
    with pytest.raises(ValueError, match=r"is not compiled; got .*choose 'auto', or install"):
        attend_native(rows, layout)
