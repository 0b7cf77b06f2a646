"""The description of a published dataset: title, licence, authors, description, address, date."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hepdata.errors import InputError
from hepdata.plain_text import printable
from hepdata.storage.dataset.manifest import Manifest

UNKNOWN_LICENSE = "unknown"
# Addresses of datasets on Hugging Face begin with it.
HUB = "https://huggingface.co/datasets/"
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_DOMAIN = {"tracking": "charged-particle tracking", "pileup": "pileup mitigation"}


@dataclass(frozen=True)
class About:
    """The description for the card, the metadata and the citation.

    Attributes:
        title: One line.
        description: A few sentences.
        license: SPDX identifier, or "unknown".
        authors: Names of people or collaborations.
        url: Where the dataset can be found; empty if not known.
        date: Of the publication, YYYY-MM-DD.
    """

    title: str
    description: str
    license: str
    authors: tuple[str, ...]
    url: str
    date: str


def describe(
    manifest: Manifest,
    *,
    title: str | None,
    description: str | None,
    license: str,
    authors: Sequence[str],
    url: str,
    date: str,
) -> About:
    """Fill in what the user did not give from the manifest.

    Raises:
        InputError: The licence is not an identifier.
    """
    if not _SPDX.fullmatch(license):
        raise InputError(
            "`license`",
            found=repr(license),
            expected="an SPDX identifier such as CC-BY-4.0 or MIT",
            remedy="see https://spdx.org/licenses",
        )
    domain = _DOMAIN.get(manifest.task, manifest.task)
    counts = manifest.statistics()
    n_events = len({event for shards in manifest.splits.values() for s in shards for event in s.event_ids})
    return About(
        title=_one_line(title or f"Point clouds for {domain}"),
        description=_one_line(
            description
            or f"{counts.n_clouds:,} point clouds of {n_events:,} collision events for {domain}: "
            f"{counts.n_points:,} points in (η, φ) with features"
            f"{' and labels' if any(column.is_label for column in manifest.columns) else ''}"
            f"{', and lists of point pairs' if manifest.has_pairs else ''}."
        ),
        license=license,
        authors=tuple(_one_line(author) for author in authors),
        url=_one_line(url),
        date=date,
    )


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
