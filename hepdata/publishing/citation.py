"""`CITATION.cff` of a published dataset (citation-file-format.github.io, version 1.2.0)."""

from __future__ import annotations

import yaml

from hepdata import __version__
from hepdata.publishing.about import UNKNOWN_LICENSE, About

_PAPER = {
    "type": "conference-paper",
    "title": "Locality-Sensitive Hashing-Based Efficient Point Transformer with Applications in High-Energy "
    "Physics",
    "authors": [
        {"family-names": "Miao", "given-names": "Siqi"},
        {"family-names": "Lu", "given-names": "Zhiyuan"},
        {"family-names": "Liu", "given-names": "Mia"},
        {"family-names": "Duarte", "given-names": "Javier"},
        {"family-names": "Li", "given-names": "Pan"},
    ],
    "collection-title": "Proceedings of the 41st International Conference on Machine Learning (ICML)",
    "year": 2024,
}


def write_citation(about: About) -> str:
    """The text of the file: how to cite the dataset, and the software and paper behind its format."""
    toolkit = {
        "type": "software",
        "title": "HEPT toolkit",
        "version": __version__,
        "authors": [{"name": "The HEPT developers"}],
    }
    content: dict[str, object] = {
        "cff-version": "1.2.0",
        "message": "If you use this dataset, please cite it.",
        "type": "dataset",
        "title": about.title,
        "abstract": about.description,
        # The format demands at least one author.
        "authors": [{"name": name} for name in about.authors or ("The authors of this dataset",)],
        "date-released": about.date,
    }
    if about.license != UNKNOWN_LICENSE:
        content["license"] = about.license
    if about.url:
        content["url"] = about.url
    content["references"] = [toolkit, _PAPER]
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)
