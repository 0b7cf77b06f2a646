"""`croissant.json`: the metadata that dataset search engines and `mlcroissant` read (Croissant 1.0).

One record set per split, one field per column. The list of files has their checksums.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hepdata.publishing.about import About
from hepdata.schema import Column
from hepdata.storage.columns import SCALARS, list_columns
from hepdata.storage.dataset.manifest import Manifest

FILE_NAME = "croissant.json"
_TYPES = {"float32": "cr:Float32", "int32": "cr:Int32", "int64": "cr:Int64", "bool": "sc:Boolean"}
# The context that the specification prescribes, word for word.
_CONTEXT: dict[str, object] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def write_croissant(about: About, manifest: Manifest) -> str:
    """The text of `croissant.json`."""
    splits = [split for split in manifest.splits if manifest.statistics(split).n_clouds]
    content: dict[str, object] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        # Names may contain only letters, digits and a few marks.
        "name": re.sub(r"[^A-Za-z0-9_-]+", "-", about.title).strip("-") or manifest.task,
        "alternateName": about.title,
        "description": about.description,
        "license": about.license,
        "url": about.url or f"urn:sha256:{manifest.fingerprint}",
        "version": "1.0.0",
        "datePublished": about.date,
        "creator": [{"@type": "sc:Organization", "name": name} for name in about.authors],
        "citeAs": cite_as(about),
        "keywords": ["high-energy physics", "point cloud", manifest.task],
        "isLiveDataset": False,
        "distribution": [*_files(manifest), *(_file_set(split) for split in splits)],
        "recordSet": [_record_set(split, manifest) for split in splits],
    }
    return json.dumps({key: value for key, value in content.items() if value != []}, indent=1) + "\n"


def read_date(text: str) -> str:
    """The date of publication in the text of a `croissant.json`, or an empty string."""
    try:
        content = json.loads(text)
    except ValueError:
        return ""
    date = content.get("datePublished") if isinstance(content, dict) else None
    return date if isinstance(date, str) else ""


def cite_as(about: About) -> str:
    """One line that cites the dataset."""
    authors = " and ".join(about.authors) or "The authors of this dataset"
    return f"{authors}: {about.title} ({about.date[:4]}).{' ' + about.url if about.url else ''}"


def _files(manifest: Manifest) -> list[Mapping[str, object]]:
    return [
        {
            "@type": "cr:FileObject",
            "@id": shard.name,
            "name": shard.name,
            "contentUrl": shard.name,
            "contentSize": f"{shard.bytes} B",
            "encodingFormat": "application/x-parquet",
            "sha256": shard.sha256,
        }
        for shards in manifest.splits.values()
        for shard in shards
    ]


def _file_set(split: str) -> Mapping[str, object]:
    return {
        "@type": "cr:FileSet",
        "@id": f"{split}-files",
        "name": f"{split}-files",
        "description": f"Parquet files of the split {split}, beside this one.",
        "encodingFormat": "application/x-parquet",
        "includes": f"{split}-*.parquet",
    }


def _record_set(split: str, manifest: Manifest) -> Mapping[str, object]:
    lists = list_columns(manifest.as_schema(), manifest.has_pairs)
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "description": f"{manifest.statistics(split).n_clouds} point clouds, one a record.",
        "field": [
            *(_field(split, column, is_list=False) for column in SCALARS),
            *(_field(split, column, is_list=True) for column in lists),
        ],
    }


def _field(split: str, column: Column, *, is_list: bool) -> Mapping[str, object]:
    field: dict[str, object] = {
        "@type": "cr:Field",
        "@id": f"{split}/{column.name}",
        "name": column.name,
        "description": f"{column.meaning} [{column.unit}]" if column.unit else column.meaning,
        "dataType": _TYPES[column.dtype],
        "source": {"fileSet": {"@id": f"{split}-files"}, "extract": {"column": column.name}},
    }
    return {**field, "repeated": True} if is_list else field
