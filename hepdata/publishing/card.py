"""The data card: README.md with the YAML header that Hugging Face reads."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from hepdata import __version__
from hepdata.plain_text import printable
from hepdata.publishing.about import HUB, UNKNOWN_LICENSE, About
from hepdata.publishing.croissant import cite_as
from hepdata.schema import Column
from hepdata.storage.columns import SCALARS, list_columns
from hepdata.storage.dataset.manifest import Manifest

# Hugging Face's classes of sizes: number of rows below, and its name.
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))
_MAX_SOURCES = 20


def write_card(about: About, manifest: Manifest, pictures: Sequence[str]) -> str:
    """Markdown with header.

    Args:
        about: What the user says of the dataset.
        manifest: Of the dataset in Parquet.
        pictures: Paths of pictures below the folder.
    """
    sections = [
        f"# {about.title}",
        about.description,
        *(f"![{path.rsplit('/', 1)[-1].removesuffix('.png')}]({path})" for path in pictures),
        _write_loading(about, manifest),
        _write_splits(manifest),
        _write_columns(manifest),
        _write_provenance(manifest),
        _write_rights(about),
    ]
    header = yaml.safe_dump(make_header(about, manifest), sort_keys=False, allow_unicode=True)
    return f"---\n{header}---\n\n" + "\n\n".join(sections) + "\n"


def make_header(about: About, manifest: Manifest) -> dict[str, object]:
    """The card's YAML header: licence, tags, and where `datasets` finds splits and features."""
    splits = _filled_splits(manifest)
    n_rows = sum(manifest.statistics(split).n_clouds for split in splits)
    n_bytes = {split: sum(shard.bytes for shard in manifest.splits[split]) for split in splits}
    features: list[dict[str, str]] = [{"name": column.name, "dtype": column.dtype} for column in SCALARS]
    features += [{"name": column.name, "large_list": column.dtype} for column in _lists(manifest)]
    return {
        "license": about.license.lower(),
        "pretty_name": about.title,
        "tags": ["high-energy-physics", "point-cloud", "hept", manifest.task],
        "size_categories": [next((name for limit, name in _SIZES if n_rows < limit), "n>1M")],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"{split}-*.parquet"} for split in splits],
            }
        ],
        "dataset_info": {
            "features": features,
            "splits": [
                {
                    "name": split,
                    "num_bytes": n_bytes[split],
                    "num_examples": manifest.statistics(split).n_clouds,
                }
                for split in splits
            ],
            "download_size": sum(n_bytes.values()),
            "dataset_size": sum(n_bytes.values()),
        },
    }


def _lists(manifest: Manifest) -> tuple[Column, ...]:
    return list_columns(manifest.as_schema(), manifest.has_pairs)


def _filled_splits(manifest: Manifest) -> list[str]:
    return [split for split in manifest.splits if manifest.statistics(split).n_clouds]


def _write_loading(about: About, manifest: Manifest) -> str:
    lines = [
        "## Load it",
        "",
        "One row is one point cloud, one column is one variable: a list with one entry per point. Any reader "
        "of Parquet reads the files. The examples run in this folder.",
    ]
    for name, code in _make_examples(manifest).items():
        lines += ["", f"With {name}:", "", "```python", *code, "```"]
    if about.url.startswith(HUB):
        lines += ["", f"`load_dataset` also takes `{about.url.removeprefix(HUB)}` instead of the folder."]
    if manifest.has_pairs:
        lines += [
            "",
            "Pair lists are in CSR form: the partners of point `i` are `pos_idx[pos_ptr[i]:pos_ptr[i+1]]` "
            "(the same particle) and `neg_idx[neg_ptr[i]:neg_ptr[i+1]]` (to be told apart).",
        ]
    return "\n".join(lines)


def _make_examples(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """Lines of code for every library; all use the same split and the same two columns."""
    split = next(iter(_filled_splits(manifest)), "train")
    a, b = _two_coordinates(manifest)
    files = f"{split}-*.parquet"
    return {
        "hept": ("import hepdata", f'cloud = hepdata.open_dataset(".")["{split}"][0]'),
        "Hugging Face datasets": (
            "import os",
            "import datasets",
            f'rows = datasets.load_dataset(os.getcwd(), split="{split}", streaming=True)',
        ),
        "polars": (
            "import polars as pl",
            f'points = pl.scan_parquet("{files}").select("{a}", "{b}").explode("{a}", "{b}").collect()',
        ),
        "duckdb": (
            "import duckdb",
            f"points = duckdb.sql(\"SELECT unnest({a}) AS {a}, unnest({b}) AS {b} FROM '{files}'\")",
        ),
        "pandas": (
            "from glob import glob",
            "import pandas as pd",
            f'clouds = pd.concat(map(pd.read_parquet, sorted(glob("{files}"))), ignore_index=True)',
        ),
        "awkward": (
            "import awkward as ak",
            f'clouds = ak.from_parquet("{files}", columns=["{a}", "{b}"])',
        ),
    }


def _two_coordinates(manifest: Manifest) -> tuple[str, str]:
    names = list(dict.fromkeys(entry.column for entry in manifest.coordinates))
    names += [column.name for column in manifest.columns if column.name not in names]
    return names[0], names[min(1, len(names) - 1)]


def _write_splits(manifest: Manifest) -> str:
    rows = []
    for split, shards in manifest.splits.items():
        counts = manifest.statistics(split)
        n_events = len({event for shard in shards for event in shard.event_ids})
        n_pairs = counts.n_positives + counts.n_negatives
        cells = (
            counts.n_clouds,
            n_events,
            counts.n_points,
            n_pairs,
            len(shards),
            sum(s.bytes for s in shards),
        )
        rows.append((split, *(f"{cell:,}" for cell in cells)))
    return "## Splits\n\n" + _table(("split", "clouds", "events", "points", "pairs", "files", "bytes"), rows)


def _write_columns(manifest: Manifest) -> str:
    ranges = manifest.statistics().columns
    labels = {column.name for column in manifest.columns if column.is_label}
    rows = [(f"`{column.name}`", column.dtype, column.unit, column.meaning, "") for column in SCALARS]
    for column in _lists(manifest):
        found = ranges.get(column.name)
        has_range = found is not None and found.minimum is not None
        text = f"{found.minimum:.4g} … {found.maximum:.4g}" if found is not None and has_range else ""
        meaning = column.meaning + (" (label)" if column.name in labels else "")
        rows.append((f"`{column.name}`", f"list of {column.dtype}", column.unit, meaning, text))
    inputs = ", ".join(f"`{entry.column}`" for entry in manifest.features)
    return (
        "## Columns\n\n"
        + _table(("column", "type", "unit", "meaning", "range"), rows)
        + f"\n\nValues are stored unscaled. Features of the published models: {inputs}; `dataset.json` has "
        "their scales."
    )


def _write_provenance(manifest: Manifest) -> str:
    # Lists of events per file are long; they are in dataset.json.
    settings = {key: value for key, value in manifest.configuration.items() if key != "shards"}
    configuration = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).rstrip()
    software = ", ".join(f"{name} {version}" for name, version in manifest.software.items())
    lines = [
        "## Provenance",
        "",
        f"Built from {len(manifest.sources):,} source files; {len(manifest.skipped):,} events were skipped. "
        "`dataset.json` lists all of them with checksums and reasons.",
        "",
        f"- Fingerprint of the data files: `{manifest.fingerprint}`",
        f"- Software: {printable(software)}",
        f"- Laid out by hept {__version__}",
        "",
        "Configuration of the build:",
        "",
        "```yaml",
        printable(configuration).replace("```", "'''"),
        "```",
    ]
    if manifest.sources:
        rows = [(f"`{s.name}`", f"{s.bytes:,}", f"`{s.sha256}`") for s in manifest.sources[:_MAX_SOURCES]]
        lines += ["", _table(("source file", "bytes", "sha256"), rows)]
        if len(manifest.sources) > _MAX_SOURCES:
            lines += ["", f"… and {len(manifest.sources) - _MAX_SOURCES:,} more in `dataset.json`."]
    return "\n".join(lines)


def _write_rights(about: About) -> str:
    is_known = about.license != UNKNOWN_LICENSE
    return "\n".join(
        [
            "## Check, licence, citation",
            "",
            "`sha256sum -c SHA256SUMS` checks every file.",
            "",
            f"Licence: {about.license}."
            if is_known
            else "Licence: not stated. Ask the authors before you use or share the data.",
            "",
            f"Cite it as: {cite_as(about)} `CITATION.cff` has the same for reference managers.",
        ]
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return (
            "| " + " | ".join(printable(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        )

    return "\n".join([line(header), "|" + "---|" * len(header), *(line(row) for row in rows)])
