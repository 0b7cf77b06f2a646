import pytest
import torch

from hepdata.errors import InputError
from hept.model.frame import Frame
from hept.paper.systems.catalog import CATALOG, NAMES, find_system
from hept.paper.systems.registry import build_model, match_width

SYSTEMS = [name for name in NAMES if name != "mlp"]


def draw(frame, sizes, dtype=torch.float64):
    n = sum(sizes)
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(n, frame.n_features, generator=generator, dtype=dtype)
    if frame.n_classes:
        features[:, frame.class_feature] = torch.randint(0, 7, (n,), generator=generator).to(dtype)
    coords = torch.randn(n, frame.coords_dim, generator=generator, dtype=dtype)
    return features, coords, torch.tensor([0, *sizes]).cumsum(0)


def build(name, frame):
    torch.manual_seed(0)
    return build_model(name, frame).double().eval()


@pytest.mark.parametrize("name", SYSTEMS)
def test_clouds_of_a_batch_do_not_meet(name, tracking_frame):
    model = build(name, tracking_frame)
    features, coords, offsets = draw(tracking_frame, [45, 0, 1, 70])
    with torch.no_grad():
        together = model(features, coords, offsets)
        alone = [
            model(features[a:b], coords[a:b], torch.tensor([0, b - a]))
            for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
            if b > a
        ]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_cloud_is_seen_whole(name, tracking_frame):
    """A changed point changes others of its cloud: a system without attention would pass the test above."""
    model = build(name, tracking_frame)
    features, coords, offsets = draw(tracking_frame, [60])
    moved = features.clone()
    moved[0] += 1.0
    with torch.no_grad():
        change = (model(moved, coords, offsets) - model(features, coords, offsets)).abs().sum(1)
    assert (change[1:] > 1e-12).any()


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_weight_learns_on_a_cpu(name, pileup_frame):
    torch.manual_seed(0)
    model = build_model(name, pileup_frame)
    features, coords, offsets = draw(pileup_frame, [40, 30], torch.float32)
    model(features, coords, offsets).square().mean().backward()
    for label, weights in model.named_parameters():
        if weights.requires_grad and weights.numel():
            assert weights.grad is not None, label
            assert torch.isfinite(weights.grad).all(), label


@pytest.mark.parametrize("name", [system.name for system in CATALOG if system.source])
def test_parameters_match_those_of_hept(name):
    tied = name in ("or-only-tied", "or-and-tied")
    for frame, published in (
        (Frame(15, 6, 12), 0.33e6),
        (Frame(8, 4, 1, head="classification", n_classes=8, class_feature=7), 0.31e6),
    ):
        with torch.device("meta"):
            counts = [
                sum(w.numel() for w in model.parameters())
                for model in (build_model("hept", frame), build_model(name, frame))
            ]
        assert counts[0] == pytest.approx(published, rel=0.02)
        assert counts[1] == pytest.approx(counts[0], rel=0.06 if tied else 0.01)


def test_the_width_is_the_best_of_its_neighbours(tracking_frame):
    from hept.paper.systems.registry import make

    def off(width):
        model = make("gcn", tracking_frame, width)
        return abs(sum(w.numel() for w in model.parameters()) - target)

    target = sum(w.numel() for w in build_model("hept", tracking_frame).parameters())
    width = match_width("gcn", tracking_frame)
    assert off(width) <= min(off(width - 1), off(width + 1))


def test_every_name_of_the_catalog_can_be_built(tracking_frame):
    with torch.device("meta"):
        assert all(isinstance(build_model(name, tracking_frame), torch.nn.Module) for name in NAMES)
    assert len({system.label for system in CATALOG}) == len(CATALOG)


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(InputError, match="did you mean 'flatformer'"):
        find_system("flatformr")


def test_random_stays_as_drawn(tracking_frame):
    model = build("random", tracking_frame).float()
    features, coords, offsets = draw(tracking_frame, [30], torch.float32)
    before = model(features, coords, offsets).detach()
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    model(features, coords, offsets).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model(features, coords, offsets).detach(), before)


def test_random_scores_ignore_their_inputs(pileup_frame):
    model = build("random", pileup_frame)
    features, coords, offsets = draw(pileup_frame, [30])
    torch.testing.assert_close(model(features, coords, offsets), model(features + 5, coords * 2, offsets))


def test_a_full_turn_of_phi_changes_nothing_where_it_is_periodic(pileup_frame):
    """A full turn of φ is the same point, for every system that uses coordinates modulo their period."""
    for name in ("smyrf", "smyrf-khept", "flt", "performer-khept", "pointtrans", "gcn", "gatedgnn", "hept"):
        model = build(name, pileup_frame)
        features, coords, offsets = draw(pileup_frame, [50])
        turned = coords.clone()
        turned[:, 1] += 2 * torch.pi
        with torch.no_grad():
            torch.testing.assert_close(
                model(features, turned, offsets), model(features, coords, offsets), rtol=1e-6, atol=1e-8
            )


@pytest.mark.parametrize("name", SYSTEMS)
def test_half_precision_keeps_hashes_and_distances(name, tracking_frame):
    torch.manual_seed(0)
    model = build_model(name, tracking_frame).eval()
    features, coords, offsets = draw(tracking_frame, [50], torch.float32)
    with torch.no_grad():
        exact = model(features, coords, offsets)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = model(features, coords, offsets).float()
    assert (half - exact).square().mean().sqrt() < 0.1 * exact.square().mean().sqrt()


# Reformer and HyperAttention keep points of one bucket in input order.
@pytest.mark.parametrize("name", [name for name in SYSTEMS if name not in ("reformer", "hyperattn")])
def test_the_order_of_points_does_not_matter(name, tracking_frame):
    model = build(name, tracking_frame)
    features, coords, offsets = draw(tracking_frame, [60, 33])
    generator = torch.Generator().manual_seed(2)
    order = torch.cat([torch.randperm(60, generator=generator), 60 + torch.randperm(33, generator=generator)])
    with torch.no_grad():
        straight = model(features, coords, offsets)
        mixed = model(features[order], coords[order], offsets)
    torch.testing.assert_close(mixed, straight[order], rtol=1e-6, atol=1e-8)
