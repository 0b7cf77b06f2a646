"""Which layers of the detector a dataset uses, and how they are numbered.

Numbers are those of the detector, not of the event: a layer without hits keeps its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError, nearest_name
from hepdata.yaml_text import read_yaml

Layers = tuple[tuple[int, int], ...]
# The name of a choice, or (volume, layer) one by one.
LayerChoice = str | Layers
LAYER_CHOICES = ("pixel", "pixel+strip", "all")


def _even(volume: int, first: int, last: int) -> Layers:
    return tuple((volume, layer) for layer in range(first, last + 1, 2))


# TrackML's detector: (volume, layer) in order. Pixels have the numbers 0 … 17, strips those after them.
PIXEL_LAYERS: Layers = _even(7, 2, 14) + _even(8, 2, 8) + _even(9, 2, 14)
_SHORT_STRIPS = _even(12, 2, 12) + _even(13, 2, 8) + _even(14, 2, 12)
_LONG_STRIPS = _even(16, 2, 12) + _even(17, 2, 4) + _even(18, 2, 12)
TRACKML_LAYERS: dict[str, Layers] = {
    "pixel": PIXEL_LAYERS,
    "pixel+strip": PIXEL_LAYERS + _SHORT_STRIPS + _LONG_STRIPS,
}

# The Open Data Detector of ColliderML, numbered in the same way.
_ODD_PIXELS = _even(16, 4, 16) + _even(17, 2, 8) + _even(18, 2, 14)
_ODD_SHORT_STRIPS = _even(23, 2, 12) + _even(24, 2, 8) + _even(25, 2, 12)
_ODD_LONG_STRIPS = _even(28, 2, 12) + _even(29, 2, 4) + _even(30, 2, 12)
_ODD_ALL = _ODD_PIXELS + _ODD_SHORT_STRIPS + _ODD_LONG_STRIPS
ODD_LAYERS: dict[str, Layers] = {"pixel": _ODD_PIXELS, "pixel+strip": _ODD_ALL, "all": _ODD_ALL}


# Volumes of endcaps: at negative z, and its mirror image.
_TRACKML_ENDS = {7: 9, 12: 14, 16: 18}
_ODD_ENDS = {16: 18, 23: 25, 28: 30}


def mirror_trackml(layers: Layers) -> tuple[int, ...] | None:
    """The number of the opposite layer for each of these of TrackML's detector; None if one is not chosen."""
    return _mirror(layers, TRACKML_LAYERS["pixel+strip"], _TRACKML_ENDS)


def mirror_odd(layers: Layers) -> tuple[int, ...] | None:
    """The same for the Open Data Detector."""
    return _mirror(layers, _ODD_ALL, _ODD_ENDS)


def _mirror(layers: Layers, every: Layers, ends: Mapping[int, int]) -> tuple[int, ...] | None:
    opposite = {layer: layer for layer in every}
    for left, right in ends.items():
        # In both volumes layers are numbered along z.
        pairs = zip(
            [layer for layer in every if layer[0] == left],
            reversed([layer for layer in every if layer[0] == right]),
            strict=True,
        )
        for one, other in pairs:
            opposite[one], opposite[other] = other, one
    number = {layer: i for i, layer in enumerate(layers)}
    found = [number.get(opposite.get(layer, (-1, -1))) for layer in layers]
    numbers = tuple(i for i in found if i is not None)
    return numbers if len(numbers) == len(found) else None


def list_layers(choice: LayerChoice, known: Mapping[str, Layers]) -> Layers:
    """The chosen layers in the order of their numbers.

    Raises:
        InputError: The detector has no choice of this name.
    """
    if not isinstance(choice, str):
        return choice
    if choice not in known:
        raise InputError(
            "`layers`",
            found=repr(choice),
            expected=f"{', '.join(known)}, or a YAML file with a list of layers",
            remedy=nearest_name(choice, list(known)),
        )
    return known[choice]


def parse_layers(choice: str) -> LayerChoice:
    """The name of a choice as it is, or the layers that a YAML file lists.

    Such a file has `layers: [[8, 2], [8, 4], …]`: volume and layer, numbered from 0 in this order.

    Raises:
        InputError: Neither a name nor a readable list of different layers.
    """
    if choice in LAYER_CHOICES:
        return choice
    path = Path(choice)
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(
            "`layers`",
            found=repr(choice),
            expected=f"{', '.join(LAYER_CHOICES)}, or a YAML file with a list of layers",
            remedy=nearest_name(choice, list(LAYER_CHOICES)),
        )
    try:
        content = read_yaml(path)
    except (OSError, ValueError) as error:
        raise _bad_list(path, f"a file that cannot be read ({' '.join(str(error).split())[:200]})") from error
    pairs = content.get("layers") if isinstance(content, dict) else None
    if not isinstance(pairs, list) or not pairs:
        raise _bad_list(path, "no list called layers")
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and all(_is_number(part) for part in pair)):
            raise _bad_list(path, f"the entry {pair!r}")
    layers = tuple((pair[0], pair[1]) for pair in pairs)
    doubled = [layer for layer in layers if layers.count(layer) > 1]
    if doubled:
        raise _bad_list(path, f"{list(doubled[0])} twice")
    return layers


def name_layers(choice: LayerChoice) -> str:
    """The choice in words, for messages."""
    return f"{choice} layers" if isinstance(choice, str) else f"{len(choice)} listed layers"


def number_layers(
    volume_id: NDArray[Any], layer_id: NDArray[Any], layers: Sequence[tuple[int, int]]
) -> NDArray[np.int64]:
    """The position of each hit's (volume, layer) in `layers`, −1 where it is not among them."""
    # A table of all (volume, layer) up to the largest known ones, with a border for all beyond.
    volumes, numbers = np.array(layers, dtype=np.int64).T
    table = np.full((volumes.max() + 2, numbers.max() + 2), -1, dtype=np.int64)
    table[volumes, numbers] = np.arange(len(layers))
    number: NDArray[np.int64] = table[
        np.minimum(volume_id, volumes.max() + 1), np.minimum(layer_id, numbers.max() + 1)
    ]
    return number


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 15


def _bad_list(path: Path, found: str) -> InputError:
    return InputError(
        path,
        found=found,
        expected="layers: [[8, 2], [8, 4], …], every volume and layer once",
        remedy="correct the file",
    )
