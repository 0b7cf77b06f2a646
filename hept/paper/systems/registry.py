"""From a name to a network: every system with the same sizes and as many trainable parameters as HEPT."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import nn

from hepdata.errors import InputError
from hept.model.frame import Frame
from hept.model.mlp import build_mlp
from hept.model.transformer import AttentionFactory
from hept.paper.systems.catalog import find_system
from hept.paper.systems.graph_network import GraphNetwork
from hept.paper.systems.random_baseline import RandomScores, Untrained

MAX_WIDTH = 4096


def build_model(name: str, frame: Frame) -> nn.Module:
    """A network with `forward(features, coords, offsets)`, weights drawn from torch's generator.

    Args:
        name: A name of the catalog, or a user's own system; see `find_system`.
        frame: Sizes, shared by all systems.

    Raises:
        InputError: There is no such system.
    """
    system = find_system(name)
    if name == "mlp":
        return build_mlp(frame)
    if name == "random":
        if frame.head == "classification":
            return RandomScores(frame.out_dim)
        return Untrained(frame.build_hept())
    if name == "hept":
        return frame.build_hept()
    if system.family == "own":
        return frame.build_hept(_import_own(system.source))
    return make(name, frame, match_width(name, frame))


def match_width(name: str, frame: Frame) -> int:
    """The width of the system's own networks at which it has as many trainable parameters as HEPT."""
    with torch.device("meta"):
        target = _count(frame.build_hept())
        low, high = 1, MAX_WIDTH
        if _count(make(name, frame, low)) == _count(make(name, frame, high)):
            # The system has no free width: with HEPT's kernel it has the same parameters as HEPT.
            return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _count(make(name, frame, middle)) <= target else (low, middle)
        over = _count(make(name, frame, high)) - target
        under = target - _count(make(name, frame, low))
    return high if over < under else low


def make(name: str, frame: Frame, width: int) -> nn.Module:
    """The system `name` with its free width set to `width`."""
    system = find_system(name)
    file, function = system.source.split(":")
    build = getattr(import_module(f"hept.paper.systems.{file}"), function)
    if system.family != "graph":
        return frame.build_hept(build(frame, width, **system.options))
    return GraphNetwork(frame, build(frame), width)


def _import_own(source: str) -> AttentionFactory:
    """The class at `module:Class`.

    The name may come from a weights file, so nothing but a torch module is called, and the current folder is
    searched only if the user has put it on Python's path.

    Raises:
        InputError: It cannot be imported, or is no torch module.
    """
    module, _, name = source.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"model {source!r}",
            found=f"no such class ({error})",
            expected="module:Class that Python can import",
            remedy="install its package, or put its folder on Python's path: PYTHONPATH=.",
        ) from error
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise InputError(
            f"model {source!r}",
            found=f"{type(found).__name__} {name}",
            expected="a class derived from torch.nn.Module, made by Class(hidden_dim, coords_dim)",
            remedy="see the documentation's page on your own attention",
        )
    return found


def _count(model: nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters() if weights.requires_grad)
