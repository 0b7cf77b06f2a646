"""Hostile manifests with a valid checksum: nothing outside of the dataset's folder may be touched."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import hepdata
from benchmarks.faults.damage import read_dataset, spoil
from benchmarks.faults.kills import fresh
from benchmarks.faults.tally import Kind, Tally

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

_NASTY: list[Json] = [
    None, True, -1, 0, 10**15, 2**63, 10**40, 1e308, float("nan"), float("inf"), "", "../../x", "/etc/passwd",
    "\x1b[2J", "a" * 100_000, "$\\frac$", [], [[]], {}, {"a": {"b": []}}, "memory://x", "O", "V999999999",
]  # fmt: skip


def forge(manifest: bytes, draw: random.Random) -> bytes:
    """The manifest with one thing changed, and signed: whoever can write a file can write its checksum."""
    content = json.loads(manifest)
    del content["checksum"]
    change(content, draw)
    return sign(content)


def sign(content: Json) -> bytes:
    """The text of a manifest."""
    body = json.dumps(content, indent=1, ensure_ascii=False).encode()[1:]
    return b'{\n "checksum": "%s",%s\n' % (hashlib.sha256(body).hexdigest().encode(), body)


def change(content: dict[str, Json] | list[Json], draw: random.Random) -> None:
    """Replace, remove or rename something at a random place."""
    while True:
        key = draw.choice(list(content) if isinstance(content, dict) else list(range(len(content))))
        inner = content[key]
        if not (isinstance(inner, dict | list) and inner and draw.random() < 0.8):
            break
        content = inner
    kind = draw.randrange(4)
    if kind == 0:
        del content[key]
    elif kind == 1 and isinstance(content, dict):
        content[str(draw.choice(_NASTY))[:300]] = content.pop(key)
    else:
        content[key] = draw.choice(_NASTY)


def use(copy: Path, names: frozenset[str]) -> str:
    """Everything that reads a manifest; nothing may be written beside the outputs."""
    try:
        hepdata.validate(copy / "second")
        str(hepdata.open_dataset(copy / "second").info())
        read_dataset(copy / "second")
        hepdata.merge([copy / "first", copy / "second"], copy / "out")
    finally:
        left = {path.name for path in copy.iterdir()} - names - {"out"}
        if left:
            raise RuntimeError(f"left {left}")
    return ""


def forge_manifests(folder: Path, share: float) -> Iterator[Tally]:
    """Hostile manifests."""
    copy = fresh(folder)
    path = copy / "second" / "dataset.json"
    unsigned = json.loads(path.read_bytes())
    del unsigned["checksum"]
    if sign(unsigned) != path.read_bytes():
        raise SystemExit("manifests are signed in another way now; forged ones would all be refused for that")
    names = frozenset(entry.name for entry in copy.iterdir())
    yield spoil("forged", "dataset.json", path, forge, partial(use, names=names), 500, share)


KINDS: dict[str, Kind] = {"manifests": forge_manifests}
