"""Which particles count in InfoNCE."""

import pytest
import torch

from hepdata.loader.dataset import open_dataset
from hepdata.schema import SCORED_PT
from hept.model.dataset_checks import find_target
from hept.objectives.objective import make_objective
from hept.settings.train_config import LossConfig


@pytest.fixture
def loss_of(tracking_dataset):
    opened = open_dataset(tracking_dataset)
    batch = next(iter(opened["train"].loader(2, pairs=False)))
    out = torch.randn(batch.n_points, 4, generator=torch.Generator().manual_seed(0))

    def compute(seed, **settings):
        config = LossConfig(negatives="mined", n_mined=8, random_negatives=0, **settings)
        objective = make_objective(find_target(opened), config, only_metric=True)
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        return float(objective.loss(out, batch, normaliser=None, generator=generator))

    return compute


def test_a_part_of_the_particles_below_the_threshold_counts_in_training(loss_of):
    without, whole = loss_of(1, pt_min=SCORED_PT), loss_of(1, pt_min=0)
    assert without != whole
    assert loss_of(1, pt_min=0, low_pt_part=0) == without
    drawn = [loss_of(seed, pt_min=0, low_pt_part=0.5) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert not {without, whole} & set(drawn)


def test_validation_counts_them_all(loss_of):
    assert loss_of(None, pt_min=0, low_pt_part=0) == loss_of(None, pt_min=0)
