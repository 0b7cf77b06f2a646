import numpy as np
import pytest
import torch

from hept import load_model
from hept.export.graph import ModelGraph
from hept.export.sample import draw_sample
from hept.export.trace import to_tensors


@pytest.mark.parametrize("task", ["tracking", "pileup"])
def test_raw_columns_give_what_the_loader_and_the_network_give(run_of, task):
    trained = load_model(run_of(task))
    sample = draw_sample(trained.features, trained.coords, (40, 0, 25), seed=0)
    offsets = torch.from_numpy(sample.offsets)
    with torch.no_grad():
        raw, prepared = (
            ModelGraph(trained, kind)(to_tensors(sample.select(kind)), offsets)
            for kind in ("raw", "prepared")
        )
        expected = trained.network(
            torch.from_numpy(sample.features), torch.from_numpy(sample.coords), offsets
        )
    if task == "pileup":
        expected = expected.sigmoid()[:, 0]
    assert raw.equal(prepared)
    torch.testing.assert_close(raw, expected)


def test_a_sample_has_groups_ties_and_values_in_stored_units(run_of):
    trained = load_model(run_of("pileup"))
    columns = draw_sample(trained.features, trained.coords, (4_000,), seed=0).columns
    assert np.array_equal(columns["eta"][19::20], columns["eta"][18::20])
    assert columns["pid_class"].dtype == np.int64
    (classes,) = (entry.n_classes for entry in trained.features if entry.column == "pid_class")
    assert set(columns["pid_class"]) == set(range(classes))
    assert columns["phi"].min() >= -np.pi - 1e-6
    assert columns["phi"].max() <= np.pi + 1e-6
    entry = next(entry for entry in trained.features if entry.column == "pt")
    prepared = (np.sign(columns["pt"]) * np.log1p(np.abs(columns["pt"])) - entry.shift) / entry.spread
    assert abs(prepared.mean()) < 0.2
    assert 0.8 < prepared.std() < 1.2
