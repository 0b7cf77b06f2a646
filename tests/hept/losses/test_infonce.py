import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hept.devices.threads import use_threads
from hept.losses import RandomNegatives, count_particles, info_nce, number_particles
from hept.losses import infonce as module


def parts(cloud):
    return cloud.positives, cloud.negatives, cloud.particle, cloud.is_anchor


def value_and_gradient(loss, x):
    x = x.clone().requires_grad_()
    value = loss(x)
    (gradient,) = torch.autograd.grad(value, x)
    return value.detach(), gradient


@pytest.mark.parametrize("similarity", ["published", "paper"])
@pytest.mark.parametrize("tile", [1, 7, 128])
def test_loss_and_gradient_are_those_of_the_definition(make_cloud, literal, monkeypatch, similarity, tile):
    monkeypatch.setattr(module, "TILE", tile)
    cloud = make_cloud(0)
    options = {"tau": 0.07, "similarity": similarity}
    value, gradient = value_and_gradient(lambda x: info_nce(x, *parts(cloud), **options), cloud.x)
    expected, expected_gradient = value_and_gradient(lambda x: literal(x, *parts(cloud), **options), cloud.x)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-9, atol=1e-13)


def test_float32_agrees_with_float64(make_cloud):
    cloud = make_cloud(1, n_points=300, n_particles=40, n_negatives=60)
    value, gradient = value_and_gradient(lambda x: info_nce(x, *parts(cloud)), cloud.x.float())
    expected, expected_gradient = value_and_gradient(
        lambda x: info_nce(x, *parts(cloud)), cloud.x.float().double()
    )
    assert value.dtype == torch.float32
    assert abs(float(value) - float(expected)) < 1e-6
    assert (gradient - expected_gradient).norm() < 1e-5 * expected_gradient.norm()


def test_points_without_negatives_leave_the_others_alone(make_cloud, make_rows, literal):
    cloud = make_cloud(2)
    anchors = torch.repeat_interleave(torch.arange(len(cloud.x)), cloud.negatives.ptr.diff())
    keep = anchors % 4 != 1
    cloud.negatives = make_rows(anchors[keep], cloud.negatives.idx[keep], len(cloud.x))
    value, gradient = value_and_gradient(lambda x: info_nce(x, *parts(cloud)), cloud.x)
    expected, expected_gradient = value_and_gradient(lambda x: literal(x, *parts(cloud)), cloud.x)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)


def test_tiles_run_on_one_thread_and_the_caller_keeps_its_own(make_cloud, monkeypatch):
    seen, add_tile = [], module._add_tile

    def look(*args):
        seen.append(torch.get_num_threads())
        return add_tile(*args)

    monkeypatch.setattr(module, "_add_tile", look)
    cloud = make_cloud(5)
    with use_threads(3):
        value_and_gradient(lambda x: info_nce(x, *parts(cloud)), cloud.x)
        assert torch.get_num_threads() == 3
    assert set(seen) == {1}


def test_no_positive_pair_costs_nothing(make_cloud):
    cloud = make_cloud(3)
    cloud.is_anchor = torch.zeros_like(cloud.is_anchor)
    value, gradient = value_and_gradient(lambda x: info_nce(x, *parts(cloud)), cloud.x)
    assert value == 0
    assert (gradient == 0).all()


def test_coinciding_points_have_a_finite_gradient(make_cloud):
    cloud = make_cloud(4)
    value, gradient = value_and_gradient(lambda x: info_nce(x, *parts(cloud)), torch.zeros_like(cloud.x))
    assert value > 0
    assert (gradient == 0).all()


def test_hand_counted():
    # One particle (points 0, 1) and one negative of point 0 at the distance of its positive: −log(1/2);
    # point 1 has no negative: 0. The mean over the particle's two pairs is half of the first.
    x = torch.tensor([[0.0], [1.0], [-1.0]], dtype=torch.float64)
    rows = module.Rows
    del rows
    positives = _rows([0, 1, 2, 2], [1, 0])
    negatives = _rows([0, 1, 1, 1], [2])
    particle = torch.tensor([5, 5, 6])
    loss = info_nce(x, positives, negatives, particle, torch.tensor([True, True, True]))
    assert float(loss) == pytest.approx(np.log(2) / 2)


def test_two_clouds_are_the_particle_weighted_mean(make_cloud):
    first, second = make_cloud(5), make_cloud(6)
    n = len(first.x)
    joined = [
        torch.cat([first.x, second.x]),
        *(
            _rows(
                torch.cat([a.ptr, b.ptr[1:] + a.ptr[-1]]),
                torch.cat([a.idx, b.idx + n]),
            )
            for a, b in ((first.positives, second.positives), (first.negatives, second.negatives))
        ),
        number_particles(
            torch.cat([first.particle, second.particle]),
            torch.arange(2).repeat_interleave(torch.tensor([n, n])),
        ),
        torch.cat([first.is_anchor, second.is_anchor]),
    ]
    counts = [count_particles(c.positives.ptr.diff(), c.particle, c.is_anchor) for c in (first, second)]
    losses = [float(info_nce(c.x, *parts(c))) for c in (first, second)]
    assert float(info_nce(*joined)) == pytest.approx(np.average(losses, weights=counts))
    shares = [float(info_nce(c.x, *parts(c), normaliser=sum(counts))) for c in (first, second)]
    assert float(info_nce(*joined)) == pytest.approx(sum(shares))


def test_random_negatives_are_those_of_the_draw(make_cloud, make_rows, literal, monkeypatch):
    monkeypatch.setattr(module, "TILE", 1000)
    cloud = make_cloud(7)
    offsets = torch.tensor([0, len(cloud.x)])
    random = RandomNegatives(0.5, offsets, torch.Generator().manual_seed(3))
    anchors = (cloud.is_anchor & (cloud.positives.ptr.diff() > 0)).nonzero().squeeze(1)
    n_listed = int(cloud.negatives.ptr.diff()[anchors].sum())
    drawn = torch.randint(
        0, len(cloud.x), (round(0.5 * n_listed / len(anchors)),), generator=torch.Generator().manual_seed(3)
    )
    listed = torch.repeat_interleave(torch.arange(len(cloud.x)), cloud.negatives.ptr.diff())
    extra = [(int(u), int(v)) for u in anchors for v in drawn if cloud.particle[u] != cloud.particle[v]]
    extra_u, extra_v = torch.tensor(extra).T
    longer = make_rows(torch.cat([listed, extra_u]), torch.cat([cloud.negatives.idx, extra_v]), len(cloud.x))
    expected = literal(cloud.x, cloud.positives, longer, cloud.particle, cloud.is_anchor)
    assert len(extra) > 0
    torch.testing.assert_close(info_nce(cloud.x, *parts(cloud), random_negatives=random), expected)


@given(seed=st.integers(0, 1000), shift=st.floats(-3, 3))
@settings(max_examples=10)
def test_loss_ignores_order_of_points_and_place_of_the_origin(seed, shift):
    from_seed = torch.Generator().manual_seed(seed)
    n = 40
    particle = torch.randint(0, 8, (n,), generator=from_seed)
    x = torch.randn(n, 3, generator=from_seed, dtype=torch.float64)
    is_negative = (particle[:, None] != particle) & (torch.rand(n, n, generator=from_seed) < 0.3)
    is_positive = (particle[:, None] == particle) & ~torch.eye(n, dtype=torch.bool)

    def loss(order):
        def rows(matrix):
            matrix = matrix[order][:, order]
            return _rows(
                torch.cat([torch.zeros(1, dtype=torch.int64), matrix.sum(1).cumsum(0)]),
                matrix.nonzero()[:, 1],
            )

        return info_nce(
            x[order] + shift, rows(is_positive), rows(is_negative), particle[order], particle[order] > 2
        )

    permuted = loss(torch.randperm(n, generator=from_seed))
    torch.testing.assert_close(permuted, loss(torch.arange(n)))


def test_particle_numbers_tell_clouds_apart():
    number = number_particles(torch.tensor([9, 9, 7, 9]), torch.tensor([0, 0, 0, 1]))
    assert number[0] == number[1]
    assert len(set(number.tolist())) == 3
    assert (
        len(number_particles(torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64))) == 0
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tau": 0.001}, "tau is 0.001; it must be at least 0.0125"),
        ({"similarity": "cosine"}, "similarity is 'cosine'"),
    ],
)
def test_unusable_options_are_named(make_cloud, change, message):
    cloud = make_cloud(8)
    with pytest.raises(ValueError, match=message):
        info_nce(cloud.x, *parts(cloud), **change)


def test_wrong_lengths_are_named(make_cloud):
    cloud = make_cloud(9)
    with pytest.raises(ValueError, match="particle is for 59 points; embeddings have 60"):
        info_nce(cloud.x, cloud.positives, cloud.negatives, cloud.particle[1:], cloud.is_anchor)


def test_published_loss_of_the_real_event(real_file, make_rows):
    golden = np.load(real_file("golden/loss_event1.npz"))
    event = np.load(real_file("golden/event1_pixel_one_sector.npz"))
    pairs = torch.from_numpy(event["pairs"]).long()
    particle = torch.from_numpy(event["particle_id"])
    is_same = particle[pairs[0]] == particle[pairs[1]]
    rows = [make_rows(*pairs[:, chosen], len(particle)) for chosen in (is_same, ~is_same)]
    is_anchor = torch.from_numpy((event["pt"] > 0.9) & event["reconstructable"])
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        x = torch.from_numpy(golden["emb"]).to(dtype)
        value, gradient = value_and_gradient(lambda x: info_nce(x, *rows, particle, is_anchor), x)
        assert float(value) == pytest.approx(float(golden["infonce_loss"]), abs=1e-6)
        expected = golden["infonce_grad"]
        assert np.linalg.norm(gradient.numpy() - expected) < tolerance * np.linalg.norm(expected)


def _rows(ptr, idx):
    class Rows:
        pass

    rows = Rows()
    rows.ptr, rows.idx = torch.as_tensor(ptr), torch.as_tensor(idx)
    return rows
