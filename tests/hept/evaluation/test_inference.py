"""One pass of the model serves whatever is asked of a split."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

import hept
from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hept.evaluation.inference import run_model
from hept.model.network import Network
from hept.model.weights import load_model
from hept.training.trainer import fit


@pytest.fixture
def n_passes():
    """Clouds that each network has seen."""
    seen = Counter()

    def count(module, args, out):
        if isinstance(module, Network):
            seen[id(module)] += 1

    handle = register_module_forward_hook(count)
    yield seen
    handle.remove()


@pytest.fixture
def run(tracking_dataset, small_config, tmp_path):
    return fit(small_config(), tracking_dataset, tmp_path / "run").run


def test_report_and_tuning_run_the_model_once_for_each_split(run, tracking_dataset, n_passes):
    hept.write_report(run, tracking_dataset, tune_clouds=5)
    # The trained network on 2 clouds of valid and 2 of test, the untrained one on those of test.
    assert sorted(n_passes.values()) == [2, 4]
    assert (run / "clustering.json").exists()


def test_a_split_that_is_tuned_and_reported_on_is_run_once(make_dataset, small_config, tmp_path, n_passes):
    dataset = make_dataset(splits={"train": 1, "valid": 3, "test": 0})
    run = fit(small_config("tracking-demo", "epochs=1"), dataset, tmp_path / "run").run
    n_passes.clear()
    page = hept.write_report(run, dataset, tune_clouds=2).read_text()
    assert sorted(n_passes.values()) == [3, 3]
    assert hept.evaluate(run, dataset, "valid")["n_clouds"] == 3
    assert '<td>n_clouds</td><td class="number">3</td>' in page


def test_evaluation_with_tracks_and_prediction_are_one_pass_each(run, tracking_dataset, tmp_path, n_passes):
    hept.tune_clustering(run, tracking_dataset)
    assert list(n_passes.values()) == [2]
    n_passes.clear()
    assert "trackml_score" in hept.evaluate(run, tracking_dataset)
    assert list(n_passes.values()) == [2]
    n_passes.clear()
    assert hept.predict(run, tracking_dataset, tmp_path / "hits.parquet").n_clouds == 8
    assert list(n_passes.values()) == [8]


def test_outputs_are_those_of_the_network_and_its_mode_is_kept(run, tracking_dataset):
    dataset, model = open_dataset(tracking_dataset), load_model(run)
    model.network.train()
    answers = list(run_model(model, dataset, "test", max_clouds=1))
    assert len(answers) == 1
    assert model.network.training
    model.network.eval()
    np.testing.assert_array_equal(answers[0][0], model(dataset["test"][0]))


def test_a_model_moves_to_a_precision_as_a_copy(run, tracking_dataset):
    dataset, model = open_dataset(tracking_dataset), load_model(run)
    plain, double, half = (
        next(run_model(model.on("cpu", precision), dataset, "test"))[0].double()
        for precision in ("32-true", "64-true", "bf16-mixed")
    )
    # The caller's model is as it was.
    assert {parameter.dtype for parameter in model.network.parameters()} == {torch.float32}
    scale = double.abs().max()
    assert 0 < (plain - double).abs().max() < 1e-3 * scale
    assert (plain - double).abs().max() < (half - double).abs().max() < 0.3 * scale
    assert model.on("cpu").precision == model.config.precision


def test_every_function_that_runs_a_model_checks_the_device(run, tracking_dataset, tmp_path):
    for call in (
        lambda device: hept.evaluate(run, tracking_dataset, device=device),
        lambda device: hept.predict(run, tracking_dataset, tmp_path / "x.parquet", device=device),
        lambda device: hept.tune_clustering(run, tracking_dataset, device=device),
        lambda device: hept.write_report(run, tracking_dataset, device=device),
    ):
        with pytest.raises(InputError, match="`device='tpu'`: found no name of a device"):
            call("tpu")
        if not torch.cuda.is_available():
            with pytest.raises(InputError, match="`device='cuda'`: found no GPU that torch can use"):
                call("cuda")
