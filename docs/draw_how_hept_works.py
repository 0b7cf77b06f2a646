"""Draws the picture of how-hept-works.md: kernel, regions, blocks and recall of one layer of a trained model.

    python docs/draw_how_hept_works.py docs/how-hept-works.png

Takes a minute or two: events are simulated and built, a small model is trained, and its second layer is
looked at while it answers for one event of the test split.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import hepdata
import hept
from hepdata.pictures.canvas import ACCENT, FAINT, INK, SIGNAL, new_grid, save_figure
from hept.attention.definition import HashTables, HEPTAttention

LAYER, HEAD = 1, 0


def main(path: Path) -> None:
    """Make the events and the model, and draw."""
    with tempfile.TemporaryDirectory() as folder:
        raw, data, run = (Path(folder) / name for name in ("raw", "tracks", "run"))
        hepdata.simulate_tracking(raw, events=20, hits_per_event=2000)
        dataset = hepdata.build_tracking(raw, data)
        hept.fit(dataset, run, preset="tracking-demo", settings={"epochs": 4})
        draw(path, dataset["test"][0], hept.load_model(run))


def draw(path: Path, cloud: hepdata.PointCloud, model: hept.TrainedModel) -> None:
    """Four panels: the kernel, the regions, the blocks, and what they find."""
    attention = [m for m in model.network.modules() if isinstance(m, HEPTAttention)][LAYER]
    seen = watch(model, cloud, attention)
    figure, panels = new_grid(4, n_columns=2, panel_size=(4.4, 3.3))

    distance = np.linspace(0, 2, 200)
    for omega in attention.omega()[:, 0].tolist():
        panels[0].plot(distance, np.exp(-omega * distance**2), color=ACCENT, alpha=0.7)
    panels[0].set_title("1  kernel of each head, learned", loc="left", color=INK)
    panels[0].set_xlabel("distance in η")
    panels[0].set_ylabel("weight")

    region, block = seen.regions(HEAD), seen.blocks(0, HEAD)
    panels[1].scatter(cloud.eta, cloud.phi, c=region * 7 % 20, cmap="tab20", s=4, linewidths=0)
    panels[1].set_title(f"3  regions of one table: {len(np.unique(region))}", loc="left", color=INK)
    chosen = block == block[np.argmin(np.hypot(cloud.eta, cloud.phi))]
    panels[2].scatter(cloud.eta, cloud.phi, c=FAINT, s=4, linewidths=0)
    panels[2].scatter(cloud.eta[chosen], cloud.phi[chosen], c=SIGNAL, s=9, linewidths=0)
    panels[2].set_title(f"4  one block: {chosen.sum()} of {len(chosen):,} points", loc="left", color=INK)
    for panel in panels[1:3]:
        panel.set_xlabel("η")
        panel.set_ylabel("φ")

    found, computed = seen.recall()
    tables = np.arange(1, len(found) + 1)
    panels[3].plot(tables, found, color=SIGNAL, marker="o", label="of the kernel's weight")
    panels[3].plot(tables, computed, color=ACCENT, marker="o", label="of all pairs, computed")
    panels[3].set_ylim(0, 1)
    panels[3].set_xticks(tables)
    panels[3].set_xlabel("hash tables (OR)")
    panels[3].set_title("2, 5  found in the same block", loc="left", color=INK)
    panels[3].legend(frameon=False)
    save_figure(figure, path)


class Seen:
    """What one attention layer did for one cloud; C tables, H heads, N points."""

    def __init__(
        self, tables: HashTables, arguments: tuple[object, ...], order: tuple[Tensor, Tensor]
    ) -> None:
        self.query, self.key, self.ranks, self.clouds, self.coords = arguments[:5]
        self.tables, self.order = tables, order
        self.block_size = 0

    def regions(self, head: int) -> np.ndarray:
        """(N,) number of the region in the first table."""
        codes = [code[0, head] for code in self.tables._codes_of_coords(self.ranks, self.clouds)]
        return np.unique(torch.stack(codes).numpy(), axis=1, return_inverse=True)[1].ravel()

    def blocks(self, table: int, head: int, of: int = 0) -> np.ndarray:
        """(N,) number of the block of every query (`of` 0) or key (1)."""
        order = self.order[of][table, head].numpy()
        block = np.empty(len(order), int)
        n_blocks = max(1, round(len(order) / self.block_size))
        block[order] = np.arange(len(order)) * n_blocks // len(order)
        return block

    def recall(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the kernel's weight, and of all pairs, the part in 1, 2, … tables; mean of heads."""
        found, computed = [], []
        for head in range(self.query.shape[0]):
            shared = self.coords[head].mT
            query, key = (torch.cat([z[head], shared], 1).double() for z in (self.query, self.key))
            weight = torch.exp(-0.5 * torch.cdist(query, key).square()).numpy()
            met = np.zeros(weight.shape, bool)
            rows = []
            for table in range(self.order[0].shape[0]):
                met |= self.blocks(table, head)[:, None] == self.blocks(table, head, of=1)[None, :]
                rows.append((weight[met].sum() / weight.sum(), met.mean()))
            found.append([row[0] for row in rows])
            computed.append([row[1] for row in rows])
        return np.mean(found, 0), np.mean(computed, 0)


def watch(model: hept.TrainedModel, cloud: hepdata.PointCloud, attention: HEPTAttention) -> Seen:
    """Let the model answer, and keep what the layer's hash tables got and gave."""
    kept: list[Seen] = []
    hook = attention.tables.register_forward_hook(lambda *call: kept.append(Seen(*call)))
    model(cloud)
    hook.remove()
    kept[0].block_size = attention.block_size
    return kept[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
