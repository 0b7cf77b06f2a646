"""The LSH-based efficient point transformer: model, losses, metrics, trainer, evaluator."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hepdata import __version__ as __version__
from hepdata.openmp import limit_spinning

if TYPE_CHECKING:
    from hept.attention.clouds import Clouds
    from hept.attention.layer import HEPTAttention
    from hept.model import HEPT
    from hept.published import load_published

# Nothing here has loaded torch yet.
limit_spinning()

__all__ = ["HEPT", "Clouds", "HEPTAttention", "load_published"]

_MODULES = {
    "HEPT": "hept.model",
    "Clouds": "hept.attention.clouds",
    "HEPTAttention": "hept.attention.layer",
    "load_published": "hept.published",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: settings are checked without waiting for torch.
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'hept' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
