import numpy as np
import pytest
import torch

from hepdata.loader.dataset import open_dataset
from hept.devices.peak_memory import available_gigabytes, peak_gigabytes
from hept.paper.comparison import scaling
from hept.paper.comparison.latency import measure_latency
from hept.paper.comparison.scaling import ScalingLimits, draw_cloud, list_sizes, may_go_on, measure_size
from hept.paper.comparison.step_cost import measure_cost, median_seconds
from hept.paper.comparison.store import ResultStore
from hept.runs.training_data import open_training_data


@pytest.fixture
def one_cloud(tracking_dataset, small_config):
    config = small_config("tracking-demo")
    data = open_training_data(config, tracking_dataset)
    return config, data, next(iter(open_dataset(tracking_dataset)["test"].loader(1)))


def test_peak_memory_is_seen_though_it_is_freed():
    def work():
        first = torch.ones(20_000_000)
        second = first * 2
        return second.sum()

    for _ in range(2):
        found = peak_gigabytes(work, torch.device("cpu"))
        assert np.isnan(found) or found == pytest.approx(0.16, rel=0.2)
    assert available_gigabytes() > 0


def test_cost_of_a_graph_network_has_its_graph_apart(one_cloud):
    config, *rest = one_cloud
    changed = config.model_copy(update={"model": config.model.model_copy(update={"kind": "gcn"})})
    found = measure_cost(changed, *rest, repeats=1)
    assert found["points"] == len(rest[1].features)
    assert found["graph_ms"] > 0
    assert "graph_ms" not in measure_cost(config, *rest, repeats=1)


def test_operations_are_those_of_the_matrix_products(one_cloud):
    config, data, batch = one_cloud
    changed = config.model_copy(update={"model": config.model.model_copy(update={"kind": "mlp"})})
    found = measure_cost(changed, data, batch, repeats=1)
    # Every weight of a linear layer is one multiply-add per point; biases and norms do not count.
    from hept.model.build import build_network

    network = build_network(changed.model, data.features, data.coords, is_embedding=True)
    weights = sum(layer.weight.numel() for layer in network.modules() if isinstance(layer, torch.nn.Linear))
    assert found["gmacs"] == pytest.approx(weights * len(batch.features) / 1e9)
    assert found["parameters"] == sum(w.numel() for w in network.parameters())


def test_latency_parts_are_positive_and_attention_is_one_of_them(one_cloud):
    found = measure_latency(*one_cloud, repeats=2)
    assert set(found) == {
        "test_attention",
        "test_other",
        "train_loss_backward",
        "train_attention",
        "train_other",
    }
    assert all(value > 0 for value in found.values())


def test_the_median_ignores_the_first_run():
    calls = []
    median_seconds(lambda: calls.append(1), repeats=3, device=torch.device("cpu"))
    assert len(calls) == 4


def test_sizes_are_powers_of_two():
    assert list_sizes(2**18) == [2**power for power in range(10, 19)]
    assert list_sizes(3000) == [1024, 2048]


def test_a_curve_ends_where_time_or_memory_does(monkeypatch):
    monkeypatch.setattr(scaling, "available_gigabytes", lambda: 10.0)
    limits = ScalingLimits(max_seconds=2, memory_share=0.5)
    assert may_go_on(None, limits)
    assert may_go_on({"train_ms": 1000, "train_gb": 1.0}, limits)
    assert not may_go_on({"train_ms": 3000, "train_gb": 1.0}, limits)
    assert not may_go_on({"train_ms": 1000, "train_gb": 2.1}, limits)
    assert may_go_on({"train_ms": 1000, "train_gb": float("nan")}, limits)


def test_random_clouds_are_particles_in_the_plane():
    features, coords, offsets = draw_cloud(500, 0)
    assert offsets.tolist() == [0, 500]
    assert torch.equal(coords[:, :2], coords[:, 2:])
    assert coords[:, 1].abs().max() <= torch.pi
    assert features[:, 7].unique().tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_one_size_is_measured():
    found = measure_size("performer", 64, torch.device("cpu"))
    assert found["points"] == 64
    assert found["train_ms"] > 0


def test_results_come_back_only_for_the_same_settings(tmp_path):
    store = ResultStore(tmp_path / "results")
    assert store.get("accuracy", "gcn", "a") is None
    store.put("accuracy", "gcn", "a", {"auc": 0.5})
    assert store.get("accuracy", "gcn", "a") == {"auc": 0.5}
    assert store.get("accuracy", "gcn", "b") is None
    assert store.get("cost", "gcn", "a") is None
    (tmp_path / "results" / "accuracy-gcn-a.json").write_text("{")
    assert store.get("accuracy", "gcn", "a") is None
