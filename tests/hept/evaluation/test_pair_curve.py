import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from hepdata.loader.dataset import open_dataset
from hept.evaluation.pair_curve import PairCurve
from hept.model.dataset_checks import find_target


@pytest.fixture
def clouds(tracking_dataset):
    """The first η–φ columns as an embedding, of every test cloud."""
    dataset = open_dataset(tracking_dataset)
    answers = [(torch.stack([b.eta, b.phi], 1), b) for b in dataset["test"].loader(1)]
    return find_target(dataset), answers


def literal(answers):
    """Every anchor against every other point, one by one."""
    nearness, is_same = [], []
    for out, batch in answers:
        for i in ((batch.pt > 0.9) & batch.is_reconstructable).nonzero().squeeze(1).tolist():
            for j in range(len(out)):
                if i != j:
                    nearness.append(-float((out[i].double() - out[j].double()).square().sum()))
                    is_same.append(bool(batch.particle_id[i] == batch.particle_id[j]))
    return average_precision_score(is_same, nearness), len(is_same)


def test_all_pairs_of_all_clouds(clouds):
    target, answers = clouds
    curve = PairCurve(target, len(answers))
    for answer in answers:
        curve.add(*answer)
    expected, n_pairs = literal(answers)
    assert curve.result().auc == pytest.approx(expected, abs=1e-6)
    assert curve.result().n_points == n_pairs


def test_too_many_pairs_are_thinned_evenly(clouds):
    target, answers = clouds
    n_points = len(answers[0][0])
    curve = PairCurve(target, len(answers), max_pairs=20 * n_points)
    for answer in answers:
        curve.add(*answer)
    # Two clouds, ten anchors each.
    assert curve.result().n_points == 20 * (n_points - 1)
    whole = PairCurve(target, len(answers))
    for answer in answers:
        whole.add(*answer)
    assert curve.result().auc == pytest.approx(whole.result().auc, abs=0.15)


def test_no_anchor_is_no_curve(clouds):
    target, ((out, batch), *_) = clouds
    batch.columns["pt"][:] = 0.1
    curve = PairCurve(target, 1)
    curve.add(out, batch)
    assert curve.result().n_points == 0
    assert np.isnan(curve.result().auc)
