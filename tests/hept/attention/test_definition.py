"""HEPT attention against dense attention, and its invariances."""

import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hept import Clouds, HEPTAttention
from hept.attention.definition import TERMS_OF_OMEGA, lift_periodic
from hept.attention.kernels.native import count_lanes

# The compiled backend exists only if hept was installed with a compiler.
BACKENDS = ["plain", *["native"] * (count_lanes() > 0)]
VARIANTS = {
    "paper": {},
    "standard kernel": {"kernel": "dot"},
    "OR-only": {"and_coords": ()},
    "OR-only, tied": {"and_coords": (), "tied_qk": True},
    "OR & AND, hidden": {"and_coords": (), "n_hidden_codes": 2},
    "OR & AND, hidden, tied": {"and_coords": (), "n_hidden_codes": 2, "tied_qk": True},
    "coordinates and hidden": {"and_coords": (0, 2), "n_hidden_codes": 1},
    "periodic": {"periods": {1: 2 * math.pi}},
}


def make(*, hidden=6, coords=3, dtype=torch.float64, seed=0, **settings):
    torch.manual_seed(seed)
    settings = {"n_heads": 2, "block_size": 8, "n_regions": 6, **settings}
    return HEPTAttention(hidden, coords, **settings).to(dtype)


def draw(n, *, hidden=6, coords=3, dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n, hidden, generator=generator, dtype=dtype),
        torch.randn(n, coords, generator=generator, dtype=dtype),
    )


def one_cloud(n):
    return Clouds.from_offsets(torch.tensor([0, n]), n)


def attend_densely(attention, x, coords):
    """Attention of every query to every key, written from the equations."""
    n, heads = len(x), attention.n_heads
    q, k, v = (
        (w or attention.w_q)(x).view(n, heads, -1) for w in (attention.w_q, attention.w_k, attention.w_v)
    )
    if attention.kernel == "gaussian":
        place = lift_periodic(coords, attention.periods)
        squared = (place[:, None] - place[None]).square()  # (N, N, P)
        logit = -0.5 * (q[:, None] - k[None]).square().sum(-1) - squared @ attention.omega().T  # (N, N, H)
    else:
        logit = torch.einsum("uhd,whd->uwh", q, k) / math.sqrt(q.shape[-1])
    out = torch.einsum("uwh,whd->uhd", logit.softmax(1), v)
    return attention.out_linear(out.flatten(1))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_block_is_dense_attention_in_value_and_gradient(variant, backend):
    dtype, digits = (torch.float32, 1e-4) if backend == "native" else (torch.float64, 1e-9)
    attention = make(block_size=40, backend=backend, dtype=dtype, **VARIANTS[variant])
    x, coords = (t.requires_grad_() for t in draw(30, dtype=dtype))
    inputs = [x, *attention.parameters()]
    weights = torch.randn(30, 6, dtype=dtype)
    ours, dense = attention(x, coords, one_cloud(30)), attend_densely(attention, x, coords)
    assert torch.allclose(ours, dense, atol=digits / 10)
    for a, b in zip(
        torch.autograd.grad((ours * weights).sum(), inputs),
        torch.autograd.grad((dense * weights).sum(), inputs),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=digits)


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_are_those_of_finite_differences(variant):
    attention = make(hidden=3, block_size=4, **VARIANTS[variant])
    x, coords = draw(9, hidden=3)
    clouds = Clouds.from_offsets(torch.tensor([0, 2, 9]), 9)
    # The sorting order is a discontinuous function of the coordinates; only x and the weights are tested.
    weight = attention.w_v.weight.detach().clone().requires_grad_()

    def run(x, weight):
        return torch.func.functional_call(attention, {"w_v.weight": weight}, (x, coords, clouds))

    assert torch.autograd.gradcheck(run, (x.requires_grad_(), weight), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=5).filter(any), seed=st.integers(0, 99))
@settings(max_examples=8)
def test_a_batch_is_its_clouds_one_at_a_time(variant, sizes, seed):
    attention = make(**VARIANTS[variant])
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    x, coords = draw(int(offsets[-1]), seed=seed)
    together = attention(x, coords, Clouds.from_offsets(offsets, len(x)))
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        alone = attention(x[begin:end], coords[begin:end], one_cloud(end - begin))
        assert torch.allclose(together[begin:end], alone, atol=1e-12)


def test_a_neighbour_in_the_batch_can_hold_anything():
    attention = make(dtype=torch.float32)
    x, coords = draw(25, dtype=torch.float32)
    clouds = Clouds.from_offsets(torch.tensor([0, 5, 25]), 25)
    before = attention(x, coords, clouds)
    x[5:], coords[5:] = torch.nan, 1e30
    after = attention(x, coords, clouds)
    assert torch.allclose(before[:5], after[:5])
    assert after[5:].isnan().all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_permute_with_the_points(variant):
    attention = make(**VARIANTS[variant])
    x, coords = draw(50)
    clouds = Clouds.from_offsets(torch.tensor([0, 20, 50]), 50)
    order = torch.cat([torch.randperm(20), 20 + torch.randperm(30)])
    permuted = attention(x[order], coords[order], clouds)
    assert torch.allclose(permuted, attention(x, coords, clouds)[order], atol=1e-12)


def test_a_rotation_changes_nothing_but_the_tables():
    attention = make(coords=2, periods={1: 2 * math.pi}, block_size=10)
    x, coords = draw(60, coords=2)
    coords[:, 1] = torch.rand(60, dtype=torch.float64) * 2 * math.pi - math.pi
    before = attention(x, coords, one_cloud(60))
    angle = 2.5
    turned = coords.clone()
    turned[:, 1] = torch.remainder(coords[:, 1] + angle + math.pi, 2 * math.pi) - math.pi
    assert not torch.allclose(attention(x, turned, one_cloud(60)), before)
    # Rotate the tables too: their cuts, and their projection directions in the plane of (cos φ, sin φ).
    tables = attention.tables
    tables.cuts.copy_(torch.remainder(tables.cuts + angle / (2 * math.pi), 1))
    c, s = tables.alpha[:, -2].clone(), tables.alpha[:, -1].clone()
    tables.alpha[:, -2] = math.cos(angle) * c - math.sin(angle) * s
    tables.alpha[:, -1] = math.sin(angle) * c + math.cos(angle) * s
    assert torch.allclose(attention(x, turned, one_cloud(60)), before, atol=1e-10)


def test_angles_meet_across_the_seam_only_by_option():
    x = torch.zeros(2, 6, dtype=torch.float64)
    x[1] = 1.0
    coords = torch.tensor([[0.0, math.pi - 1e-3], [0.0, -math.pi + 1e-3]], dtype=torch.float64)
    weights = []
    for periods in ({}, {1: 2 * math.pi}):
        attention = make(coords=2, periods=periods)
        with torch.no_grad():
            attention.w_q.weight.zero_()
            attention.w_k.weight.zero_()
        out = attention(x, coords, one_cloud(2))
        weights.append((out[0] - out[1]).abs().max())
    # Equal weights for both keys give both points the same output.
    assert weights[0] > 1e-3
    assert weights[1] < 1e-3


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_coordinates_may_have_any_number_of_dimensions(dim):
    attention = make(coords=dim, and_coords=(dim - 1,))
    x, coords = draw(20, coords=dim)
    assert attention(x, coords, one_cloud(20)).shape == (20, 6)
    assert attention.omega().shape == (2, dim)


def test_the_first_two_coordinates_share_their_weight():
    omega = make(coords=4).omega()
    assert torch.equal(omega[:, 0], omega[:, 1])
    assert not torch.equal(omega[:, 1], omega[:, 2])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["identical", "one spot", "outliers", "outlying features"])
def test_degenerate_clouds_give_finite_outputs_and_gradients(case, backend):
    attention = make(dtype=torch.float32, backend=backend)
    with torch.no_grad():
        attention.omega_terms.add_(2.0)  # ω about 1e6
    x, coords = draw(40, dtype=torch.float32)
    if case == "identical":
        x, coords = x[:1].expand(40, -1).clone(), coords[:1].expand(40, -1).clone()
    elif case == "one spot":
        coords = coords[:1].expand(40, -1).clone()
    elif case == "outliers":
        coords[3], coords[7] = 1e9, -1e9
    else:
        x[3] = 1e6
    x.requires_grad_()
    out = attention(x, coords, one_cloud(40))
    out.square().sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in attention.parameters())


def test_an_outlier_leaves_its_block_mates_precise():
    attention = make(block_size=50, dtype=torch.float32)
    x, coords = draw(50, dtype=torch.float32)
    coords[0] = 1e7
    single = attention(x, coords, one_cloud(50))
    double = attention.double()(x.double(), coords.double(), one_cloud(50))
    assert torch.allclose(single.double(), double, atol=1e-4)


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_it_can_be_sent_to_another_process(backend):
    attention = pickle.loads(pickle.dumps(make(dtype=torch.float32, backend=backend)))
    x, coords = draw(30, dtype=torch.float32)
    assert attention(x, coords, one_cloud(30)).shape == (30, 6)


def test_no_points_are_no_error():
    attention = make()
    x, coords = draw(0)
    assert attention(x, coords, Clouds.from_offsets(torch.tensor([0, 0]), 0)).shape == (0, 6)


def test_autocast_keeps_hashing_and_distances_in_float32():
    attention = make(hidden=16, dtype=torch.float32)
    x, coords = draw(200, hidden=16, dtype=torch.float32)
    with torch.no_grad():
        attention.omega_terms.add_(0.2)
    seen = []
    attention.tables.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()))
    plain = attention(x, coords, one_cloud(200))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = attention(x, coords, one_cloud(200))
    assert seen[1].dtype == torch.float32
    assert torch.equal(seen[0], seen[1])
    # The remaining difference is the rounding of values and of the last layer to 8 bits.
    assert (cast.float() - plain).abs().max() < 0.02 * plain.abs().max()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("reach", [0.0, 1.0, 30.0])
def test_a_model_in_half_precision_loses_no_more_than_its_digits(backend, dtype, reach):
    attention = make(block_size=40, backend=backend, dtype=dtype)
    x, coords = draw(30, dtype=dtype)
    # Integer coordinates, a few kernel widths apart, so that half precision represents them exactly.
    coords = (coords * reach).round()
    with torch.no_grad():
        attention.omega_terms.copy_(math.log(0.5 / TERMS_OF_OMEGA) / 6)
    out = attention(x.requires_grad_(), coords, one_cloud(30))
    (grad,) = torch.autograd.grad(out.square().sum(), x)
    exact = attend_densely(attention.double(), x.double(), coords.double())
    (exact_grad,) = torch.autograd.grad(exact.square().sum(), x)
    assert out.dtype == dtype
    assert (out - exact).abs().max() < 0.03 * exact.abs().max()
    assert (grad - exact_grad).abs().max() < 0.1 * exact_grad.abs().max()


def test_a_nan_coordinate_affects_only_its_blocks():
    attention = make(block_size=10, dtype=torch.float32)
    x, coords = draw(200, dtype=torch.float32)
    coords[17, 2] = torch.nan
    assert 0 < attention(x, coords, one_cloud(200)).isnan().any(1).sum() < 100


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "cosine"}, r"kernel: got 'cosine', need 'gaussian' or 'dot'"),
        ({"backend": "cuda"}, r"backend: got 'cuda', need one of auto, plain"),
        ({"and_coords": (3,)}, r"and_coords: got column 3, need columns of the 3 coordinates"),
        ({"periods": {7: 1.0}}, r"periods: got \{7: 1.0\}, need positive periods of the 3 coordinates"),
        ({"periods": {1: 0.0}}, r"periods: got \{1: 0.0\}, need positive periods"),
        ({"n_regions": 0.5}, r"n_regions: got 0.5, need at least 1"),
        ({"block_size": 0}, r"block_size: got 0, need at least 1"),
    ],
)
def test_settings_that_fit_no_cloud_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_number_of_threads_changes_nothing(mode):
    attention = make(dtype=torch.float32, backend="plain")
    x, coords = draw(300, dtype=torch.float32)
    before, results = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2, 5):
            torch.set_num_threads(n_threads)
            with mode():
                out = attention(x, coords, one_cloud(300))
            results.append(out.detach())
            if out.requires_grad:
                results[-1] = torch.autograd.grad(out.square().sum(), attention.w_k.weight)[0]
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert torch.allclose(result, results[0], rtol=1e-6)
