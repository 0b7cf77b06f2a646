import pytest
import torch

from hept.attention.clouds import Clouds
from hept.model.frame import Frame


@pytest.fixture
def vectors():
    """Queries, keys, values (2 heads), coordinates and two clouds of 40 and 25 points, in float64."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    clouds = Clouds.from_offsets(torch.tensor([0, 40, 65]), 65)
    return draw(2, 65, 4), draw(2, 65, 4), draw(2, 65, 3), draw(65, 2), clouds


@pytest.fixture
def tracking_frame():
    return Frame(15, 6, 12, n_layers=2, n_heads=2, hidden_dim=8, block_size=16, n_regions=4, n_neighbors=6)


@pytest.fixture
def pileup_frame():
    return Frame(
        8,
        4,
        1,
        n_layers=2,
        n_heads=2,
        hidden_dim=8,
        block_size=16,
        n_regions=4,
        n_neighbors=6,
        head="classification",
        n_classes=8,
        class_feature=7,
        periods={1: 6.283185307179586},
    )
