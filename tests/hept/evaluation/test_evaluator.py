import numpy as np
import pytest
import torch

from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hept.evaluation.evaluator import assess, evaluate, run_for_metrics
from hept.evaluation.inference import open_split
from hept.metrics import classify
from hept.model.trained import TrainedModel
from hept.settings.load import load_config
from hept.tracks.finder import Clustering


class Oracle(torch.nn.Module):
    """A model that returns one of its features."""

    def __init__(self, column):
        super().__init__()
        self.column = column

    def forward(self, features, coords, offsets):
        return features[:, self.column : self.column + 1] * 1.0


def model_of(task, dataset, column):
    schema, config = dataset.schema, load_config("tracking-6k" if task == "tracking" else "pileup-10k")
    oracle = Oracle([entry.column for entry in schema.features].index(column))
    return TrainedModel(
        oracle, task, schema.target.objective, schema.features, schema.coordinates, config, "oracle"
    )


def test_pooled_and_per_cloud_areas(pileup_dataset):
    dataset = open_dataset(pileup_dataset)
    metrics = evaluate(model_of("pileup", dataset, "pt"), dataset)
    clouds = [(cloud.pt[cloud.is_scored], cloud.is_leading[cloud.is_scored]) for cloud in dataset["test"]]
    pooled = classify(*(np.concatenate(parts) for parts in zip(*clouds, strict=True)))
    assert metrics["auc"] == pytest.approx(pooled.auc)
    assert metrics["auc_per_cloud"] == pytest.approx(np.mean([classify(*cloud).auc for cloud in clouds]))
    assert metrics["n_clouds"] == 2


def test_tracks_of_a_perfect_embedding_are_all_found(make_dataset):
    # The particle's number is stored as "r": hits of a particle coincide, all others are far apart.
    def reveal(cloud):
        cloud.columns["r"][:] = cloud.columns["particle_id"]
        noise = cloud.columns["particle_id"] == 0
        cloud.columns["r"][noise] = 1e6 + 1e4 * np.arange(noise.sum())
        return cloud

    dataset = open_dataset(make_dataset(change=reveal))
    model = model_of("tracking", dataset, "r")
    metrics = evaluate(model, dataset)
    assert metrics["ap@0.9"] == metrics["ap@0"] == metrics["recall19@0.5"] == 1.0
    answers = run_for_metrics(model, dataset, "test")
    found = assess(model, dataset, answers, clustering=Clustering("dbscan", 0.4, 3)).metrics
    assert found["efficiency_perfect"] == found["trackml_score"] == 1.0
    assert found["fake_rate"] == found["fake_rate_impure"] == found["duplicate_rate"] == 0.0


def test_without_pairs_the_loss_is_unknown_and_the_rest_is_said(make_dataset):
    from dataclasses import replace

    dataset = open_dataset(make_dataset(change=lambda cloud: replace(cloud, positives=None, negatives=None)))
    metrics = evaluate(model_of("tracking", dataset, "eta"), dataset)
    assert np.isnan(metrics["loss"])
    assert metrics["ap@0.9"] > 0


def test_an_empty_or_unknown_split_is_one_line(make_dataset):
    dataset = open_dataset(make_dataset(splits={"train": 1, "valid": 1, "test": 0}))
    model = model_of("tracking", dataset, "eta")
    with pytest.raises(InputError, match="split 'test': found no clouds"):
        evaluate(model, dataset)
    with pytest.raises(InputError, match="found no such split"):
        open_split(model, dataset, "tst")
