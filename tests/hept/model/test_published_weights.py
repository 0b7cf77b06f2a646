"""The authors' weights, against their numbers and against a literal implementation of their steps."""

import numpy as np
import pytest
import torch

from hepdata.errors import InputError
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.tracking_source import PairChoice, TrackingConfig, open_tracking
from hepdata.schema import TRACKING
from hept import load_published
from hept.paper import literal_model

FILE = "data/checkpoint/tracking-60k-model.pt"


def draw_cloud(n):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 15, generator=generator), torch.randn(n, 6, generator=generator)


def percentiles(a, b):
    difference = (a.double() - b.double()).abs().flatten()
    return difference.median().item(), difference.quantile(0.99).item()


def test_whole_blocks_give_the_authors_numbers(tmp_path):
    state = literal_model.draw_state()
    assert len(state) == 88
    torch.save(state, tmp_path / "model.pt")
    model = load_published(tmp_path / "model.pt").double()
    features, coords = (rows.double() for rows in draw_cloud(600))
    with torch.no_grad():
        theirs = literal_model.forward({name: t.double() for name, t in state.items()}, features, coords)
        ours = model(features, coords, torch.tensor([0, 600]))
    assert torch.allclose(ours, theirs, atol=1e-8)


def test_float32_meets_float64_where_the_authors_do_not(tmp_path):
    state = literal_model.draw_state()
    for i in range(4):
        # Trained weights reach ω = 10⁷.
        state[f"attns.{i}.w_rpe.weight"] += 0.6
    torch.save(state, tmp_path / "model.pt")
    model = load_published(tmp_path / "model.pt")
    features, coords = draw_cloud(600)
    # Hits of a particle are close together, far from the origin.
    coords = coords[::20].repeat_interleave(20, 0) + 1e-4 * torch.randn(600, 6)
    offsets = torch.tensor([0, 600])
    with torch.no_grad():
        single = model(features, coords, offsets)
        theirs = literal_model.forward(state, features, coords)
        double = model.double()(features.double(), coords.double(), offsets)
    ours_median, ours_p99 = percentiles(single, double)
    theirs_median, _ = percentiles(theirs, double)
    assert ours_median < 3e-4
    assert ours_p99 < 0.02
    assert theirs_median > 10 * ours_median


def test_float32_meets_float64_on_simulated_hits(tmp_path, trackml_events):
    """Hits of a detector, not a whole number of blocks, and weights as large as trained ones."""
    config = TrackingConfig(pairs=PairChoice("none"))
    source = open_tracking(trackml_events, config, events=EventRange(1001, most=1))
    ((_, (cloud,)),) = source.read_clouds(source.list_events())
    assert cloud.n_points % 100
    x = np.column_stack([cloud.columns[entry.column] * entry.scale for entry in TRACKING.features])
    features = torch.from_numpy(x).float()
    coords = torch.cat([torch.from_numpy(cloud.coords[:, :2]), features[:, :4]], 1)
    state = literal_model.draw_state()
    for i in range(4):
        state[f"attns.{i}.w_rpe.weight"] += 0.6
    torch.save(state, tmp_path / "model.pt")
    model = load_published(tmp_path / "model.pt")
    offsets = torch.tensor([0, cloud.n_points])
    with torch.no_grad():
        single = model(features, coords, offsets)
        double = model.double()(features.double(), coords.double(), offsets)
    median, p99 = percentiles(single, double)
    assert median < 3e-4
    assert p99 < 0.02


def test_the_golden_cloud_in_float64(real_file):
    golden = np.load(real_file("golden/checkpoint_n6000.npz"))
    model = load_published(real_file(FILE)).double()
    with torch.no_grad():
        features, coords = (torch.from_numpy(golden[name]).double() for name in ("x", "coords"))
        out = model(features, coords, torch.tensor([0, 6000])).numpy()
    scale = np.abs(golden["out_float64"]).max()
    is_off = np.abs(out - golden["out_float64"]) > 1e-6 * scale
    assert is_off.mean() < 3e-3


@pytest.mark.parametrize("cloud", ["golden", "real event"])
def test_float32_is_as_good_as_float64_on_trained_weights(real_file, cloud):
    model = load_published(real_file(FILE))
    if cloud == "golden":
        golden = np.load(real_file("golden/checkpoint_n6000.npz"))
        features, coords = torch.from_numpy(golden["x"]), torch.from_numpy(golden["coords"])
    else:
        event = np.load(real_file("golden/event1_pixel_one_sector.npz"))
        features = torch.from_numpy(np.column_stack([event["x"], event["layer"] / 10])).float()
        coords = torch.from_numpy(np.column_stack([event["pos"], event["x"][:, :4]])).float()
    offsets = torch.tensor([0, len(features)])
    with torch.no_grad():
        single = model(features, coords, offsets)
        double = model.double()(features.double(), coords.double(), offsets)
    median, p99 = percentiles(single, double)
    assert median < 3e-4
    assert p99 < 0.02


def list_unused(path):
    """Tensors of a checkpoint whose numbers are not in the model."""
    state = torch.load(path, weights_only=True)
    ours = {round(t.double().sum().item(), 6) for t in load_published(path).state_dict().values()}
    return [name for name, t in state.items() if round(t.double().sum().item(), 6) not in ours]


def test_all_tensors_of_a_drawn_file_are_used(tmp_path):
    torch.save(literal_model.draw_state(), tmp_path / "model.pt")
    assert list_unused(tmp_path / "model.pt") == [f"attns.{i}.w_rpe.bias" for i in range(4)]


def test_all_tensors_of_the_file_are_used(real_file):
    assert list_unused(real_file(FILE)) == [f"attns.{i}.w_rpe.bias" for i in range(4)]


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"no readable checkpoint.*the authors' checkpoint of 88 tensors"):
        load_published(tmp_path / "absent.pt")
    (tmp_path / "text.pt").write_text("weights")
    with pytest.raises(InputError, match="no readable checkpoint"):
        load_published(tmp_path / "text.pt")
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="a file of another model"):
        load_published(tmp_path / "other.pt")
    state = literal_model.draw_state()
    del state["mlp_out.lins.2.bias"]
    torch.save(state, tmp_path / "short.pt")
    with pytest.raises(InputError, match=r"no tensor 'mlp_out\.lins\.2\.bias'"):
        load_published(tmp_path / "short.pt")
    state["mlp_out.lins.2.bias"] = torch.zeros(5)
    torch.save(state, tmp_path / "narrow.pt")
    with pytest.raises(InputError, match=r"tensors of other shapes.*size mismatch"):
        load_published(tmp_path / "narrow.pt")
