"""Draws the picture of ARCHITECTURE.md: one event from CSV to tracks, made by the parts that it names.

    python docs/draw_way_of_a_hit.py docs/way-of-a-hit.png

Takes half a minute: an event is simulated and built, a small model is trained, and its output is clustered.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

import hepdata
import hept
from hept.tracks.finder import Clustering, find_tracks

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

GREY, N_PARTICLES = "#c8c8c8", 12


def main(path: Path) -> None:
    """Make the events and the model, and draw."""
    with tempfile.TemporaryDirectory() as folder:
        raw, data, run = (Path(folder) / name for name in ("raw", "tracks", "run"))
        hepdata.simulate_tracking(raw, events=40, hits_per_event=600)
        dataset = hepdata.build_tracking(raw, data)
        trained = hept.fit(dataset, run, preset="tracking-demo", settings={"epochs": 40})
        clustering = hept.tune_clustering(trained, dataset)[0].clustering
        cloud = dataset["test"][0]
        csv = sorted(raw.glob("*-hits.csv*"))[0]
        lines = csv.read_text().splitlines()[:5]
        draw(path, lines, cloud, hept.load_model(trained), clustering)


def draw(
    path: Path,
    lines: list[str],
    cloud: hepdata.PointCloud,
    model: hept.TrainedModel,
    clustering: Clustering,
) -> None:
    """Eight panels, in the order in which a hit meets the parts of the program."""
    figure, axes = plt.subplots(2, 4, figsize=(16, 8.2), layout="constrained")
    panels = iter(axes.flat)
    eta, phi, z, r = (cloud.columns[name] for name in ("eta", "phi", "z", "r"))
    colours = _colour_particles(cloud)
    embedding = model(cloud).numpy()

    _write(next(panels), "hepdata/readers", "raw files", "\n".join(line[:38] for line in lines))
    _scatter(next(panels), "hepdata/features", "hits become points", z, r, colours, ("z [mm]", "r [mm]"))
    _draw_pairs(next(panels), cloud)
    columns = "\n".join(f"{name:<20}{cloud.columns[name].dtype}" for name in list(cloud.columns)[:14])
    _write(next(panels), "hepdata/storage", "one row a cloud, one list a column", columns)
    _scatter(next(panels), "hepdata/loader", "a batch of tensors in (η, φ)", eta, phi, colours, ("η", "φ"))
    blocks = _find_blocks(cloud, model)
    _scatter(next(panels), "hept/attention", "hashing cuts them into blocks", eta, phi, blocks, ("η", "φ"))
    plane = _project(embedding)
    _scatter(
        next(panels), "hept/model, losses, training", "an embedding is learned", *plane.T, colours, ("", "")
    )
    _draw_tracks(next(panels), cloud, find_tracks(embedding, cloud.columns, clustering))
    figure.savefig(path, dpi=110)


def _colour_particles(cloud: hepdata.PointCloud) -> list[object]:
    """A colour for each of the particles of largest pT, grey for all other hits."""
    particle, pt = cloud.columns["particle_id"], cloud.columns["pt"] * cloud.columns["is_reconstructable"]
    ids, first = np.unique(particle, return_index=True)
    chosen = {pid: plt.cm.tab20(i) for i, pid in enumerate(ids[np.argsort(-pt[first])][:N_PARTICLES])}
    return [chosen.get(pid, GREY) for pid in particle]


def _find_blocks(cloud: hepdata.PointCloud, model: hept.TrainedModel) -> np.ndarray:
    """The block of each point in the first table of the first head of the first layer."""
    found: list[np.ndarray] = []
    attention = model.network.body.blocks[0].attention  # type: ignore[union-attr, index]
    attend = attention.attend

    def look(operands: object, layout: object) -> torch.Tensor:
        blocks = layout.blocks  # type: ignore[attr-defined]
        block = np.empty(cloud.n_points, dtype=int)
        order = layout.query_order[0, 0].numpy()  # type: ignore[attr-defined]
        block[order] = blocks.slot.numpy() // blocks.position.shape[1]
        found.append(block)
        return attend(operands, layout)  # type: ignore[no-any-return]

    attention.attend = look
    model(cloud)
    attention.attend = attend
    return plt.cm.tab20(found[0] % 20)  # type: ignore[no-any-return]


def _project(embedding: np.ndarray) -> np.ndarray:
    """The two directions in which the embedding varies most."""
    centred = embedding - embedding.mean(0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T  # type: ignore[no-any-return]


def _title(panel: Axes, where: str, what: str) -> None:
    panel.set_title(
        f"{1 + panel.get_subplotspec().num1}  {where}\n", family="monospace", weight="bold", fontsize=11
    )
    panel.text(0.5, 1.02, what, transform=panel.transAxes, ha="center", fontsize=10)


def _write(panel: Axes, where: str, what: str, text: str) -> None:
    _title(panel, where, what)
    panel.text(0.04, 0.95, text, transform=panel.transAxes, va="top", family="monospace", fontsize=9)
    panel.set_xticks([])
    panel.set_yticks([])


def _scatter(
    panel: Axes, where: str, what: str, x: np.ndarray, y: np.ndarray, colours: object, names: tuple[str, str]
) -> None:
    _title(panel, where, what)
    panel.scatter(x, y, c=colours, s=7, linewidths=0)
    panel.set_xlabel(names[0])
    panel.set_ylabel(names[1])


def _draw_pairs(panel: Axes, cloud: hepdata.PointCloud) -> None:
    """One hit, the hits of its particle, and the nearest hits of others."""
    eta, phi = cloud.columns["eta"], cloud.columns["phi"]
    length = np.diff(cloud.positives.ptr)
    anchor = int(np.argmax(length * (np.abs(eta) < 1)))
    positives, negatives = (pairs.row(anchor) for pairs in (cloud.positives, cloud.negatives))
    _scatter(panel, "hepdata/pairs", "same particle, and near others", eta, phi, GREY, ("η", "φ"))
    panel.scatter(eta[negatives], phi[negatives], s=9, c="tab:red", linewidths=0, label="negatives")
    panel.scatter(eta[positives], phi[positives], s=22, c="tab:blue", linewidths=0, label="positives")
    panel.scatter(eta[anchor], phi[anchor], s=60, marker="*", c="black", label="a hit")
    panel.legend(loc="upper right", fontsize=8)


def _draw_tracks(panel: Axes, cloud: hepdata.PointCloud, found: np.ndarray) -> None:
    eta, phi, r = (cloud.columns[name] for name in ("eta", "phi", "r"))
    _scatter(panel, "hept/evaluation", "near in the embedding: one track", eta, phi, GREY, ("η", "φ"))
    labels, counts = np.unique(found[found >= 0], return_counts=True)
    for i, label in enumerate(labels[counts >= 4]):
        hits = np.flatnonzero(found == label)
        hits = hits[np.argsort(r[hits])]
        panel.plot(eta[hits], phi[hits], ".-", ms=4, lw=0.8, color=plt.cm.tab20(i % 20))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
