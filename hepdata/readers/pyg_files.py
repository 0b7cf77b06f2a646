"""Files of torch_geometric point clouds, as published for HEPT and made by gnn_tracking.

In: `data<event>_s<sector>.pt` with one cloud each, or one file of many clouds (`(data, slices, …)`); out: the
tensors of one cloud by name. Pickles can run programs: they are read with torch's weights-only safety unless
the user trusts them.
"""

from __future__ import annotations

import contextlib
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hepdata.errors import InputError, missing_extra

FILE_NAME = re.compile(r"data(\d+)_s(\d+)\.pt")


@dataclass(frozen=True)
class StoredCloud:
    """The location of one cloud.

    Attributes:
        path: The file.
        event_id: Event number, from the file's name or content.
        sector: φ sector, likewise.
        position: Index in a file of many clouds; None for a file of one.
    """

    path: str
    event_id: int
    sector: int
    position: int | None = None


def list_clouds(folder: Path, *, trust: bool = False) -> list[StoredCloud]:
    """All clouds of a folder of `.pt` files, in (event, sector) order.

    Args:
        folder: Searched without its subfolders; or one `.pt` file.
        trust: Whether pickles may run whatever they contain.

    Raises:
        InputError: No files, a file that cannot be read, or the same cloud twice.
    """
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.pt"))
    if not paths:
        raise InputError(
            folder, found="no .pt files", expected="torch_geometric point clouds", remedy="check the path"
        )
    clouds: list[StoredCloud] = []
    for number, path in enumerate(paths):
        match = FILE_NAME.fullmatch(path.name)
        if match:
            clouds.append(StoredCloud(str(path), int(match[1]), int(match[2])))
        else:
            clouds += _look_into(str(path), number, trust)
    clouds.sort(key=lambda cloud: (cloud.event_id, cloud.sector))
    for first, second in pairwise(clouds):
        if (first.event_id, first.sector) == (second.event_id, second.sector):
            raise InputError(
                second.path,
                found=f"event {second.event_id}, sector {second.sector}, which is in {first.path} too",
                expected="every cloud once",
                remedy="import folders of single clouds and files of many clouds separately",
            )
    return clouds


def read_tensors(cloud: StoredCloud, *, trust: bool = False) -> dict[str, np.ndarray]:
    """The tensors of one cloud by name.

    Raises:
        InputError: The file cannot be read.
    """
    content = _load(cloud.path, trust)
    if cloud.position is None:
        tensors = _as_mapping(cloud.path, content)
    else:
        data, slices = content[0], content[1]
        tensors = {
            name: _cut(name, tensor, slices[name], cloud.position)
            for name, tensor in _as_mapping(cloud.path, data).items()
            if name in slices
        }
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _look_into(path: str, number: int, trust: bool) -> list[StoredCloud]:
    content = _load(path, trust)
    if isinstance(content, tuple) and len(content) >= 2 and isinstance(content[1], Mapping):
        fields, slices = _as_mapping(path, content[0]), content[1]
        n_clouds = len(slices["x"]) - 1 if "x" in slices else 0
        events = fields["evtid"].tolist() if "evtid" in fields else list(range(n_clouds))
        sectors = fields["s"].tolist() if "s" in fields else [0] * n_clouds
        return [StoredCloud(path, int(events[i]), int(sectors[i]), i) for i in range(n_clouds)]
    fields = _as_mapping(path, content)
    event_id = int(fields["evtid"].flatten()[0]) if "evtid" in fields else number
    sector = int(fields["s"].flatten()[0]) if "s" in fields else 0
    return [StoredCloud(path, event_id, sector)]


def _cut(name: str, tensor: torch.Tensor, limits: torch.Tensor, position: int) -> torch.Tensor:
    begin, end = int(limits[position]), int(limits[position + 1])
    # torch_geometric joins whatever is called an index along its last axis, everything else along the first.
    return tensor[..., begin:end] if "index" in name else tensor[begin:end]


def _as_mapping(path: str, content: Any) -> dict[str, torch.Tensor]:
    fields = content.to_dict() if hasattr(content, "to_dict") else content
    if not isinstance(fields, Mapping):
        raise InputError(
            path,
            found=f"a {type(content).__name__}",
            expected="a torch_geometric Data or a dictionary of tensors",
            remedy="import only files of point clouds",
        )
    return {str(name): value for name, value in fields.items() if isinstance(value, torch.Tensor)}


# Caches the last file: a file of many clouds is opened once, and memory-mapped.
@lru_cache(maxsize=1)
def _load(path: str, trust: bool) -> Any:
    try:
        with torch.serialization.safe_globals(_known_classes()):
            return torch.load(path, map_location="cpu", weights_only=not trust, mmap=_can_map(path))
    except pickle.UnpicklingError as error:
        if "Unsupported global" not in str(error) and "Unsupported class" not in str(error):
            raise _unreadable(path, error) from error
        raise InputError(
            path,
            found="a pickle with other objects than tensors",
            expected="tensors and torch_geometric Data only",
            remedy="add `trust=True` if you know who made the file: reading it can run any program",
        ) from error
    except ModuleNotFoundError as error:
        raise missing_extra(str(error.name), "interop") from error
    except (OSError, RuntimeError, EOFError, AttributeError, KeyError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> InputError:
    reason = (str(error) or type(error).__name__).splitlines()[0][:120]
    return InputError(
        path,
        found=f"a file that torch cannot read ({reason})",
        expected="what torch.save writes",
        remedy="download or make the file again",
    )


def _can_map(path: str) -> bool:
    """Whether torch can memory-map the file: only zip files, which torch writes since version 1.6."""
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        return file.read(4) == b"PK\x03\x04"
    return False


def _known_classes() -> list[Any]:
    """Harmless classes that published files contain besides tensors."""
    # The function that pickles of arrays refer to; its module has two names in different numpy versions.
    reconstruct = np.empty(0).__reduce__()[0]
    known: list[Any] = [
        np.ndarray,
        np.dtype,
        type(np.dtype(np.int64)),
        type(np.dtype(np.float64)),
        (reconstruct, "numpy.core.multiarray._reconstruct"),
        (reconstruct, "numpy._core.multiarray._reconstruct"),
    ]
    with contextlib.suppress(ImportError):
        from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import GlobalStorage

        known += [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    return known
