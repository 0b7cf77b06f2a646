"""Names of a dataset's files and splits: each is defined here and nowhere else."""

from __future__ import annotations

import re

SPLITS = ("train", "valid", "test")
MANIFEST_NAME = "dataset.json"
# In a folder in which a dataset grows: marks it as made by this program.
MARK = "build.json"
_DATA = r"[\w-]+-\d{5}-of-\d{5}\.parquet(?:\.json)?|[\w-]+\.h5"
_FINAL = rf"(?:{re.escape(MANIFEST_NAME)}|{re.escape(MARK)}|{_DATA})"
_OWN = re.compile(rf"{_FINAL}|\.{_FINAL}(?:\.[0-9a-f]{{32}})?\.tmp")


def name_shard(split: str, number: int, total: int) -> str:
    """File name of a Parquet shard; HF `datasets` recognises the splits by this pattern."""
    return f"{split}-{number:05d}-of-{total:05d}.parquet"


def name_hdf5(split: str) -> str:
    """File name of a split in HDF5."""
    return f"{split}.h5"


def is_own(name: str) -> bool:
    """Whether a build, conversion or merge writes files of this name, temporary ones included."""
    return _OWN.fullmatch(name) is not None
