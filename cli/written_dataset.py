"""Report of a command that wrote a dataset: one row per split, and the same as JSON."""

from __future__ import annotations

import click

from hepdata.storage.dataset.manifest import Manifest

from .printing import format_bytes, print_table

compression_option = click.option(
    "--compression",
    type=click.Choice(["gzip", "none"]),
    default="none",
    show_default=True,
    help="Of HDF5 files: gzip is about ten times smaller with pairs, and several times slower to read.",
)


def describe_written(out: str, manifest: Manifest) -> dict[str, object]:
    """Counts of a new dataset, by split and in total, as `--json` writes them."""
    return {
        "out": out,
        "task": manifest.task,
        "format": manifest.file_format,
        "fingerprint": manifest.fingerprint,
        "splits": {split: _count(manifest, split) for split in manifest.splits},
        "total": _count(manifest),
    }


def print_written(title: str, manifest: Manifest) -> None:
    """Print the same counts as a table."""
    counts = {split: _count(manifest, split) for split in manifest.splits}
    rows = [
        (name, entry["clouds"], entry["points"], entry["pairs"], entry["files"], format_bytes(entry["bytes"]))
        for name, entry in {**counts, "total": _count(manifest)}.items()
    ]
    print_table(title, ("split", "clouds", "points", "pairs", "files", "size"), rows)


def _count(manifest: Manifest, split: str | None = None) -> dict[str, int]:
    chosen = list(manifest.splits) if split is None else [split]
    shards = [shard for name in chosen for shard in manifest.splits[name]]
    statistics = [shard.statistics for shard in shards]
    return {
        "clouds": sum(part.n_clouds for part in statistics),
        "points": sum(part.n_points for part in statistics),
        "pairs": sum(part.n_positives + part.n_negatives for part in statistics),
        "files": len(shards),
        "bytes": sum(shard.bytes for shard in shards),
    }
