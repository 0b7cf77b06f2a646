"""Tables of points in ROOT files: an entry is a point, or an event whose branches hold lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import awkward as ak
import numpy as np
import uproot

from hepdata.readers.delphes_files import name_of, size_of
from hepdata.readers.table_files import Chunk, Lists, Values, choose_only

STEP_BYTES = 32_000_000


class Table:
    """An open ROOT file, with a tree or an RNTuple; see `hepdata.readers.table_files.TableFile`."""

    def __init__(self, file: str, tree: str | None) -> None:
        opened = uproot.open({file: None}, array_cache=None)
        kinds = opened.classnames(cycle=False)
        trees = [name for name, kind in kinds.items() if kind in ("TTree", "ROOT::RNTuple")]
        name = choose_only(trees, tree, name_of(file), "tree")
        self._tree: Any = opened[name]
        if kinds[name] == "TTree":
            types = {branch.name: _describe(branch.interpretation) for branch in self._tree.branches}
            n_bytes = sum(int(branch.uncompressed_bytes) for branch in self._tree.branches)
        else:
            form = self._tree.arrays(entry_stop=0).layout.form
            types = {name: _describe_form(form.content(name)) for name in form.fields}
            n_bytes = size_of(file)
        self.kinds = {name: kind for name, (kind, _) in types.items()}
        self.lists = frozenset(name for name, (_, is_list) in types.items() if is_list)
        n_entries = int(self._tree.num_entries)
        self._step = max(int(STEP_BYTES * n_entries / max(n_bytes, 1)), 1)
        self.chunk_rows = [min(self._step, n_entries - at) for at in range(0, n_entries, self._step)]

    def read(self, chunk: int, names: Sequence[str]) -> Chunk:
        """Some columns of a run of entries."""
        first = chunk * self._step
        entries = {"entry_start": first, "entry_stop": first + self.chunk_rows[chunk]}
        return {name: self._values(self._tree[name].array(library="ak", **entries), name) for name in names}

    def _values(self, array: Any, name: str) -> Values:
        if name not in self.lists:
            return np.asarray(ak.to_numpy(array))
        offsets = np.zeros(len(array) + 1, dtype=np.int64)
        np.cumsum(ak.to_numpy(ak.num(array)), out=offsets[1:])
        return Lists(offsets, np.asarray(ak.to_numpy(ak.flatten(array))))


def _describe(interpretation: Any) -> tuple[str, bool]:
    """Numpy's kind letter of a branch, "O" for no numbers; and whether an entry is a list."""
    content = getattr(interpretation, "content", None)
    dtype = getattr(interpretation if content is None else content, "to_dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.shape or dtype.names:
        return "O", content is not None
    return dtype.kind, content is not None


def _describe_form(form: Any) -> tuple[str, bool]:
    """The same of a field of an RNTuple."""
    content = form.content if form.is_list else form
    is_plain = content.is_numpy and not content.inner_shape
    return np.dtype(content.primitive).kind if is_plain else "O", bool(form.is_list)
