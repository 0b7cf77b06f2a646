"""Clouds as torch_geometric objects: `Data`, and a dataset for its DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hepdata.errors import missing_extra
from hepdata.loader.collate import BatchLayout, collate

try:
    from torch_geometric.data import Data, Dataset
except ImportError as error:
    raise missing_extra("torch_geometric", "interop") from error

if TYPE_CHECKING:
    from hepdata.cloud import PointCloud
    from hepdata.loader.split import Split


def cloud_to_pyg(cloud: PointCloud, layout: BatchLayout) -> Data:
    """One cloud as `Data`.

    `x` are the features, `pos` the coordinates; columns are attributes. Pairs are `positive_index` and
    `negative_index`, (2, E), which torch_geometric shifts like `edge_index` when it makes batches.
    """
    batch = collate([cloud], layout)
    content: dict[str, Any] = dict(batch.columns)
    if batch.positives is not None and batch.negatives is not None:
        content |= {
            "positive_index": batch.positives.as_edges(),
            "negative_index": batch.negatives.as_edges(),
        }
    return Data(x=batch.features, pos=batch.coords, event_id=batch.event_id, sector=batch.sector, **content)


class PygDataset(Dataset):  # type: ignore[misc]
    """The clouds of a split for `torch_geometric.loader.DataLoader`, read on request."""

    def __init__(self, split: Split, layout: BatchLayout) -> None:
        super().__init__()
        self.split = split
        self.layout = layout

    def len(self) -> int:
        """Clouds in the split."""
        return len(self.split)

    def get(self, idx: int) -> Data:
        """One cloud."""
        cloud = self.split.read(int(idx), self.layout.reads, pairs=self.layout.pairs)
        return cloud_to_pyg(cloud, self.layout)
