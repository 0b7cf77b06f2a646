"""Statistics of a dataset: the columns of the paper's table of datasets, and more.

Everything comes from the manifest; no shard is opened.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

from hepdata.html_table import Cell, format_cell, html_table
from hepdata.storage.dataset.manifest import Manifest
from hepdata.storage.dataset.statistics import Statistics


@dataclass(frozen=True)
class InfoTable:
    """A titled table: the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class DatasetInfo:
    """Tables that are shown by `print` and in notebooks.

    Attributes:
        location: Of the dataset.
        tables: About the dataset, its splits, its columns.
    """

    location: str
    tables: tuple[InfoTable, ...]

    def as_dict(self) -> dict[str, object]:
        """The tables as nested dictionaries: title, row name, header."""
        content: dict[str, object] = {"location": self.location}
        for table in self.tables:
            names = table.header[1:]
            rows = {str(row[0]): dict(zip(names, row[1:], strict=True)) for row in table.rows}
            if names == ("value",):
                content[table.title] = {name: cells["value"] for name, cells in rows.items()}
            else:
                content[table.title] = rows
        return content

    def __str__(self) -> str:
        return "\n\n".join([self.location, *(_as_text(table) for table in self.tables)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<h4>{html.escape(self.location)}</h4>" + "".join(
            html_table(table.title, table.header, table.rows) for table in self.tables
        )


def describe_dataset(location: str, manifest: Manifest) -> DatasetInfo:
    """All information of the manifest of a dataset."""
    return DatasetInfo(location, (_about(manifest), _splits(manifest), _columns(manifest)))


def _about(manifest: Manifest) -> InfoTable:
    shards = [shard for part in manifest.splits.values() for shard in part]
    size = sum(shard.bytes for shard in shards)
    statistics = manifest.statistics()
    n_pairs = statistics.n_positives + statistics.n_negatives
    rows: list[tuple[Cell, ...]] = [
        ("task", manifest.task),
        ("format", f"{manifest.file_format}, version {manifest.format_version}"),
        ("files", len(shards)),
        ("bytes", size),
        ("bytes per point", _ratio(size, statistics.n_points)),
        ("bytes per stored pair, all else included", _ratio(size, n_pairs)),
        ("pair definition", _pair_definition(manifest)),
        ("features", " ".join(entry.column for entry in manifest.features)),
        ("coordinates", " ".join(entry.column for entry in manifest.coordinates)),
        ("source files", len(manifest.sources)),
        ("skipped events", len(manifest.skipped)),
        ("made with hept", manifest.software.get("hept", "unknown")),
        ("fingerprint", manifest.fingerprint[:16]),
    ]
    return InfoTable("dataset", ("", "value"), tuple(rows))


def _pair_definition(manifest: Manifest) -> str:
    source = manifest.configuration.get("source")
    pairs = source.get("pairs") if isinstance(source, dict) else None
    definition = pairs.get("definition") if isinstance(pairs, dict) else pairs
    return str(definition or "unknown") if manifest.has_pairs else "none"


def _splits(manifest: Manifest) -> InfoTable:
    names = [*manifest.splits, "all"]
    parts = [manifest.statistics(name if name != "all" else None) for name in names]
    events = [len({e for shard in shards for e in shard.event_ids}) for shards in manifest.splits.values()]
    rows: list[tuple[Cell, ...]] = [
        ("point clouds", *(part.n_clouds for part in parts)),
        ("events", *events, sum(events)),
        ("features", *(len(manifest.features) for _ in parts)),
        ("dimensions", *(_dimensions(manifest) for _ in parts)),
        ("points per cloud", *(_ratio(part.n_points, part.n_clouds) for part in parts)),
        ("fewest points", *(part.n_points_min for part in parts)),
        ("most points", *(part.n_points_max for part in parts)),
        ("points", *(part.n_points for part in parts)),
    ]
    if manifest.has_pairs:
        rows += [
            ("labelled pairs per cloud", *(_ratio(_n_pairs(part), part.n_clouds) for part in parts)),
            ("positive pairs per cloud", *(_ratio(part.n_positives, part.n_clouds) for part in parts)),
            ("negative pairs per cloud", *(_ratio(part.n_negatives, part.n_clouds) for part in parts)),
            ("labelled pairs per point", *(_ratio(_n_pairs(part), part.n_points) for part in parts)),
        ]
    else:
        rows.append(("labelled pairs per cloud", *(None for _ in parts)))
    rows += _label_rows(manifest, parts)
    return InfoTable("splits", ("", *names), tuple(rows))


def _label_rows(manifest: Manifest, parts: list[Statistics]) -> list[tuple[Cell, ...]]:
    counts = [part.counts for part in parts]
    if not any(counts):
        return [("class ratio (pos./neg.)", *(_class_ratio(manifest, part) for part in parts))]
    if any("particles" in count for count in counts):
        return [
            # Tracking has no classes: the paper's table leaves the cell empty, too.
            ("class ratio (pos./neg.)", *(None for _ in parts)),
            ("particles per cloud", *(_per_cloud(part, "particles") for part in parts)),
            ("reconstructable per cloud", *(_per_cloud(part, "reconstructable_particles") for part in parts)),
            ("noise fraction", *(_ratio(part.counts.get("noise_points"), part.n_points) for part in parts)),
        ]
    rest = [part.n_points - part.counts.get("leading", 0) for part in parts]
    leading = [count.get("leading") for count in counts]
    scored_leading = [count.get("scored_leading") for count in counts]
    scored = [count.get("scored", 0) for count in counts]
    other = [all_scored - (own or 0) for all_scored, own in zip(scored, scored_leading, strict=True)]
    return [
        ("class ratio (pos./neg.)", *(_ratio(a, b) for a, b in zip(leading, rest, strict=True))),
        ("class ratio of scored", *(_ratio(a, b) for a, b in zip(scored_leading, other, strict=True))),
        ("scored points per cloud", *(_per_cloud(part, "scored") for part in parts)),
    ]


def _class_ratio(manifest: Manifest, part: Statistics) -> float | None:
    target = manifest.as_schema().target
    if target is None or target.objective != "classification" or target.label not in part.columns:
        return None
    positive = part.columns[target.label].total
    return _ratio(positive, part.n_points - positive)


def _columns(manifest: Manifest) -> InfoTable:
    statistics = manifest.statistics()
    rows = []
    for column in manifest.columns:
        found = statistics.columns.get(column.name)
        n_finite = statistics.n_points - found.n_not_finite if found else 0
        rows.append(
            (
                column.name,
                column.dtype,
                column.unit,
                found.minimum if found else None,
                _ratio(found.total, n_finite) if found else None,
                found.maximum if found else None,
                column.meaning,
            )
        )
    return InfoTable("columns", ("", "type", "unit", "min", "mean", "max", "meaning"), tuple(rows))


def _dimensions(manifest: Manifest) -> int:
    """Number of distinct coordinates among η and φ; models repeat and rescale them."""
    return len({entry.column for entry in manifest.coordinates} & {"eta", "phi"})


def _n_pairs(part: Statistics) -> int:
    return part.n_positives + part.n_negatives


def _per_cloud(part: Statistics, count: str) -> float | None:
    return _ratio(part.counts.get(count), part.n_clouds)


def _ratio(a: float | None, b: float) -> float | None:
    return None if a is None or not b else a / b


def _as_text(table: InfoTable) -> str:
    cells = [table.header, *([format_cell(cell) for cell in row] for row in table.rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(table.header))]
    lines = [table.title]
    for row in cells:
        # Names and phrases to the left, numbers to the right.
        parts = [row[0].ljust(widths[0])]
        for j in range(1, len(widths)):
            is_phrase = len(widths) == 2 or table.header[j] == "meaning"
            parts.append(row[j].ljust(widths[j]) if is_phrase else row[j].rjust(widths[j]))
        lines.append(("  " + "  ".join(parts)).rstrip())
    return "\n".join(lines)
