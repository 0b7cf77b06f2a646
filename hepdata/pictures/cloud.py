"""One cloud as a figure: points in the η–φ plane, coloured by the truth where there is one."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hepdata.cloud import PointCloud
from hepdata.pictures.canvas import new_figure
from hepdata.pictures.panels import draw_groups, draw_pileup
from hepdata.schema import Schema, Target


def draw_cloud(cloud: PointCloud, schema: Schema) -> Figure:
    """Groups: one colour each. Classes: two panels, of all points and of the scored ones."""
    title = f"event {cloud.event_id}, {cloud.n_points:,} points"
    target, columns = schema.target, cloud.columns
    if target is not None and target.objective == "classification":
        return _draw_classes(cloud, target, title)
    label = columns.get(target.label) if target is not None else None
    group = np.zeros(cloud.n_points, dtype=np.int64) if label is None else label
    along = columns.get("r") if label is not None else None
    figure, (panel,) = new_figure(panel_size=(8.0, 5.6))
    draw_groups(panel, columns["eta"], columns["phi"], group, title=title, joined_along=along)
    return figure


def _draw_classes(cloud: PointCloud, target: Target, title: str) -> Figure:
    columns = cloud.columns
    highlight = columns.get(target.label, np.zeros(cloud.n_points, dtype=bool)).astype(np.float64)
    pt = columns[target.pt] if target.pt is not None else np.ones(cloud.n_points)
    figure, (left, right) = new_figure(2, panel_size=(7.0, 5.2))
    draw_pileup(left, columns["eta"], columns["phi"], pt, highlight, title=title)
    scored = np.where(columns[target.selection], highlight, np.nan) if target.selection else highlight
    draw_pileup(
        right,
        columns["eta"],
        columns["phi"],
        pt,
        scored,
        title=f"scored: {target.scored}",
        colorbar=target.label_names[1] if target.label in columns else "",
    )
    return figure
