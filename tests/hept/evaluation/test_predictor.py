from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hepdata.errors import InputError, JobError
from hepdata.loader.dataset import open_dataset
from hepdata.schema import TRACKING
from hept.evaluation.inference import run_model
from hept.evaluation.predictor import predict
from hept.model.weights import load_model
from hept.tracks.finder import Clustering, cluster
from hept.training.trainer import fit

LABELS = frozenset(column.name for column in TRACKING.columns if column.is_label)


@pytest.fixture(scope="module")
def run(tracking_dataset, tmp_path_factory):
    from hept.settings.load import load_config

    small = ["model.n_layers=1", "model.hidden_dim=8", "model.n_heads=2", "epochs=1"]
    return fit(
        load_config("tracking-demo", small), tracking_dataset, tmp_path_factory.mktemp("runs") / "a"
    ).run


def test_every_hit_has_its_embedding_and_track(run, tracking_dataset, tmp_path):
    dataset, model = open_dataset(tracking_dataset), load_model(run)
    clustering = Clustering("dbscan", 0.5, 2)
    result = predict(model, dataset, tmp_path / "hits.parquet", clustering=clustering)
    table = pd.read_parquet(result.out)
    assert (
        len(table)
        == result.n_points
        == sum(len(dataset[s][i].eta) for s in dataset for i in range(len(dataset[s])))
    )
    assert result.n_clouds == len(dataset) == table.event_id.nunique()
    out, batch = next(run_model(model, dataset, "test"))
    rows = table[table.event_id == int(batch.event_id[0])]
    np.testing.assert_array_equal(rows.hit_id, batch.hit_id)
    np.testing.assert_array_equal(np.stack(rows.embedding), out)
    np.testing.assert_array_equal(rows.track_id, cluster(out.numpy(), method="dbscan", eps=0.5, min_points=2))


def test_no_truth_is_needed(run, make_dataset, tmp_path):
    def forget(cloud):
        columns = {name: values for name, values in cloud.columns.items() if name not in LABELS}
        return replace(cloud, columns=columns, positives=None, negatives=None)

    dataset = make_dataset(
        change=forget, schema=TRACKING.without(LABELS), splits={"train": 0, "valid": 0, "test": 3}
    )
    result = predict(load_model(run), open_dataset(dataset), tmp_path / "hits.parquet")
    assert result.n_clouds == 3


def test_pileup_scores_are_probabilities(pileup_dataset, small_config, tmp_path):
    run = fit(small_config("pileup-demo", "epochs=1"), pileup_dataset, tmp_path / "run").run
    result = predict(load_model(run), open_dataset(pileup_dataset), tmp_path / "p.parquet", split="test")
    table = pd.read_parquet(result.out)
    assert list(table) == ["event_id", "sector", "index_in_source", "score", "weight"]
    assert table.score.between(0, 1).all()
    assert result.n_clouds == 2


def test_what_does_not_fit_is_one_line(run, pileup_dataset, tracking_dataset, tmp_path):
    model = load_model(run)
    with pytest.raises(InputError, match="found a pileup dataset; expected a tracking dataset for the model"):
        predict(model, open_dataset(pileup_dataset), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="found no such split"):
        predict(model, open_dataset(tracking_dataset), tmp_path / "x.parquet", split="tset")
    with pytest.raises(JobError, match=r"nowhere/x.parquet"):
        predict(model, open_dataset(tracking_dataset), tmp_path / "nowhere" / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def test_a_feature_that_the_dataset_lacks_is_named(run, make_dataset, tmp_path):
    def forget(cloud):
        return replace(cloud, columns={k: v for k, v in cloud.columns.items() if k != "charge_frac"})

    dataset = make_dataset(change=forget, schema=TRACKING.without(frozenset({"charge_frac"})))
    with pytest.raises(
        InputError, match="found no column 'charge_frac'; expected the input 'charge_frac' of the model"
    ):
        predict(load_model(run), open_dataset(dataset), tmp_path / "x.parquet")
