"""One self-contained HTML page of events: columns enter, text leaves.

The page holds the scripts of this folder, among them the WebGL library regl (version 2.1.1, MIT licence), and
every event as deflated binary columns.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.loader.split import Split
from hepdata.pictures.panels import name_by_majority
from hepdata.schema import Column, Schema
from hepdata.storage.atomic import disk_errors, write_atomically

SCRIPTS = ("regl.min.js", "events.js", "drawing.js", "controls.js")
# Arrays begin at multiples of this, as JavaScript's typed arrays need it.
ALIGNMENT = 8
TRACK, TRACK_PARTICLE, SCORE = "track", "track_particle", "score"
_ANSWERS = {
    TRACK: Column(TRACK, "int32", "", "found track, -1 for none"),
    TRACK_PARTICLE: Column(TRACK_PARTICLE, "int64", "", "particle with most hits in the found track"),
    SCORE: Column(SCORE, "float32", "", "probability of the label, by the model"),
}


@dataclass(frozen=True)
class Event:
    """One cloud to show.

    Attributes:
        event_id: Event number in the source.
        sector: φ sector.
        columns: One array of N values per column.
    """

    event_id: int
    sector: int
    columns: Mapping[str, NDArray[Any]] = field(repr=False)

    def with_tracks(self, track: NDArray[np.integer], truth: NDArray[np.integer] | None) -> Event:
        """The same event with found tracks, and with their main particles where the truth is known."""
        found: dict[str, NDArray[Any]] = {TRACK: track.astype(np.int32)}
        if truth is not None:
            found[TRACK_PARTICLE] = name_by_majority(track, truth)
        return replace(self, columns={**self.columns, **found})

    def with_scores(self, score: NDArray[np.floating]) -> Event:
        """The same event with one score per point, NaN where it is not scored."""
        return replace(self, columns={**self.columns, SCORE: score.astype(np.float32)})


def write_view(split: Split, out: Path, *, title: str, n_events: int) -> Path:
    """Write the page of the first clouds of a split; see `hepdata.view`."""
    check_events(n_events)
    if not len(split):
        raise InputError(
            f"{split.root.location}, split {split.name!r}",
            found="no clouds",
            expected="a split with clouds",
            remedy="choose another split",
        )
    clouds = (split.read(index, pairs=False) for index in range(min(n_events, len(split))))
    events = (Event(cloud.event_id, cloud.sector, cloud.columns) for cloud in clouds)
    return write_page(out, title, events, split.schema)


def check_events(n_events: int) -> None:
    """Check that there is something to show.

    Raises:
        InputError: Less than one event.
    """
    if n_events < 1:
        raise InputError(
            "`events`", found=str(n_events), expected="1 or more", remedy="show at least one event"
        )


def write_page(out: Path, title: str, events: Iterable[Event], schema: Schema) -> Path:
    """Write `render_page` to a file, whole or not at all.

    Raises:
        JobError: The file cannot be written.
    """
    text = render_page(title, events, schema)
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(out) as file:
        file.write(text.encode())
    return out


def render_page(title: str, events: Iterable[Event], schema: Schema) -> str:
    """The page of some events, truth and answers side by side where there are answers.

    Args:
        title: Heading.
        events: At least one.
        schema: Of the dataset that they are from.
    """
    entries = [_encode(event, schema) for event in events]
    content = json.dumps({"title": title, **_describe(schema), "events": entries}).replace("<", "\\u003c")
    before, after = _read("viewer.html").replace("@style", _read("viewer.css")).split("@scripts")
    scripts = [
        f'<script type="application/json" id="content">{content}</script>',
        *(f"<script>\n{_read(name)}</script>" for name in SCRIPTS),
    ]
    return before.replace("@title", escape(title)) + "\n".join(scripts) + after


def _describe(schema: Schema) -> dict[str, Any]:
    """What the script has to know of the columns: which is the label, the pT, the layer."""
    target = schema.target
    classes = next((column.name for column in schema.columns if column.n_classes), None)
    return {
        "columns": {column.name: asdict(column) for column in (*schema.columns, *_ANSWERS.values())},
        "target": None if target is None else asdict(target),
        "level": "layer" if schema.has_column("layer") else classes,
    }


def _encode(event: Event, schema: Schema) -> dict[str, Any]:
    """Columns one after the other as little-endian bytes, deflated, as base64 text."""
    layout, parts, end = [], [], 0
    for name, values in event.columns.items():
        if not schema.has_column(name) and name not in _ANSWERS:
            continue
        kind = "uint8" if values.dtype == bool else values.dtype.name
        data = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        layout.append([name, kind, end])
        parts.append(data + bytes(-len(data) % ALIGNMENT))
        end += len(parts[-1])
    return {
        "event": event.event_id,
        "sector": event.sector,
        "n": len(next(iter(event.columns.values()))),
        "layout": layout,
        "data": base64.b64encode(zlib.compress(b"".join(parts), 6)).decode("ascii"),
    }


def _read(name: str) -> str:
    return files("hepdata.viewer").joinpath(name).read_text(encoding="utf-8")
