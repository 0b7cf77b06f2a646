"""Columns as attributes: `cloud.eta` is `cloud.columns["eta"]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from hepdata.errors import nearest_name

_Values = TypeVar("_Values")


class ColumnAttributes(Generic[_Values]):
    """Attribute access and tab completion for the entries of `columns`."""

    columns: Mapping[str, _Values]

    def __getattr__(self, name: str) -> _Values:
        # copy and pickle look up special methods before the fields exist.
        if name.startswith("_") or "columns" not in self.__dict__:
            raise AttributeError(name)
        try:
            return self.columns[name]
        except KeyError:
            kind, known = type(self).__name__, list(self.columns)
            raise AttributeError(f"{kind} has no column {name!r}: {nearest_name(name, known)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.columns]
