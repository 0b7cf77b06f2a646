"""Losses of pileup mitigation beside the published one, in training and by hand."""

import numpy as np
import pytest
import torch

from hepdata.errors import InputError
from hepdata.loader.batch import Batch
from hepdata.loader.dataset import open_dataset
from hepdata.schema import PILEUP
from hept.objectives.classification import ClassificationObjective
from hept.settings.train_config import LossConfig
from hept.training.trainer import fit


@pytest.fixture
def batch(pileup_dataset) -> Batch:
    return next(iter(open_dataset(pileup_dataset)["train"].loader(2)))


def loss_of(batch, out, **settings):
    objective = ClassificationObjective(PILEUP.target, LossConfig(**settings))
    return objective.loss(out, batch, normaliser=None, generator=None)


@pytest.mark.parametrize("kind", ["cross-entropy", "fraction"])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_by_hand(batch, kind, power):
    out = torch.randn(batch.n_points, 1, generator=torch.Generator().manual_seed(0))
    scored = batch.columns["is_scored"].numpy()
    p = 1 / (1 + np.exp(-out.numpy().reshape(-1)[scored]))
    label, pt = batch.columns["is_leading"].numpy()[scored], batch.columns["pt"].numpy()[scored]
    each = -np.log(np.where(label, p, 1 - p)) if kind == "cross-entropy" else (p - label) ** 2
    expected = np.mean(each * pt**power)
    assert float(loss_of(batch, out, kind=kind, pt_power=power)) == pytest.approx(expected, rel=1e-4)


def test_shares_of_a_step_add_up(batch):
    out = torch.randn(batch.n_points, 1, generator=torch.Generator().manual_seed(0))
    objective = ClassificationObjective(PILEUP.target, LossConfig(kind="fraction", missing_pt=0.5))
    whole = objective.loss(out, batch, normaliser=None, generator=None)
    half = objective.loss(out, batch, normaliser=2 * objective.count(batch), generator=None)
    torch.testing.assert_close(2 * half, whole)


def test_the_term_for_missing_pt_vanishes_with_the_right_weights(batch):
    right = torch.where(batch.columns["is_leading"], 40.0, -40.0)[:, None]
    assert float(loss_of(batch, right, kind="fraction", missing_pt=1.0)) == pytest.approx(0, abs=1e-6)
    assert float(loss_of(batch, -right, kind="fraction", missing_pt=1.0)) > 1.0


def test_a_dataset_without_momenta_is_named(batch):
    for name in ("px", "pt"):
        batch.columns.pop(name)
    out = torch.zeros(batch.n_points, 1)
    with pytest.raises(InputError, match="without the column 'px'"):
        loss_of(batch, out, missing_pt=1.0)
    with pytest.raises(InputError, match="without the column 'pt'"):
        loss_of(batch, out, kind="fraction", pt_power=1.0)


def test_training_with_each(pileup_dataset, small_config, tmp_path):
    for kind in ("cross-entropy", "fraction"):
        config = small_config("pileup-demo", f"loss.kind={kind}", "loss.missing_pt=0.1", "loss.pt_power=1")
        assert fit(config, pileup_dataset, tmp_path / kind).best is not None
