"""Damaged files, by accident or on purpose: refused in one line, or read as they were written."""

from __future__ import annotations

import json
import random
import resource
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults import child
from benchmarks.faults.jobs import pileup, tracking
from benchmarks.faults.kills import fresh
from benchmarks.faults.tally import Tally
from hepdata.loader.dataset import open_dataset
from hepdata.readers.delphes_branches import read_map
from hepdata.storage.dataset.manifest import _as_text
from hepdata.storage.dataset.merge import merge_datasets
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.dataset.validate import validate_dataset

BRANCHES = """\
collections:
  - branch: PF
    label: IsPU
    leaves: {pt: PT, eta: Eta, phi: Phi, charge: Charge, pid: PID}
"""
_NASTY: list[Any] = [
    None, True, -1, 0, 10**15, 2**63, 10**40, 1e308, float("nan"), float("inf"), "", "../../x", "/etc/passwd",
    "\x1b[2J", "a" * 100_000, "$\\frac$", [], [[]], {}, {"a": {"b": []}}, "memory://x", "O", "V999999999",
]  # fmt: skip


def flip(content: bytes, draw: random.Random) -> bytes:
    """One bit changed."""
    changed = bytearray(content)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def mutate(content: bytes, draw: random.Random) -> bytes:
    """A flipped bit, a cut, a hole, something doubled or inserted."""
    kind = draw.randrange(6)
    at = draw.randrange(len(content))
    end = min(at + draw.choice([1, 10, 1000]), len(content))
    if kind == 0:
        return flip(content, draw)
    if kind == 1:
        return content[:at]
    if kind == 2:
        return content[:at] + content[end:]
    if kind == 3:
        return content[:end] + content[at:end] + content[end:]
    if kind == 4:
        return content[:at] + draw.randbytes(end - at) + content[end:]
    return (
        content[:at] + draw.choice([b"\0", b"nan", b"-", b"1e99", b"\xff", b"\n", b",", b'"']) + content[at:]
    )


def read_all(folder: Path) -> object:
    """A checksum over everything that a reader gets."""
    import hashlib

    digest = hashlib.sha256()
    dataset = open_dataset(folder)
    for split in dataset:
        for cloud in dataset[split]:
            for name, values in cloud.columns.items():
                digest.update(name.encode() + values.tobytes())
            for pairs in (cloud.positives, cloud.negatives):
                if pairs is not None:
                    digest.update(pairs.ptr.tobytes() + pairs.idx.tobytes())
    return digest.hexdigest()


def flip_datasets(folder: Path, share: float) -> list[Tally]:
    """One bit of any file of a dataset: the reader refuses it or gives what was written."""
    tallies = []
    draw = random.Random(4)
    for name in ("first", "first-h5"):
        copy = fresh(folder)
        expected = child.run(lambda copy=copy, name=name: read_all(copy / name)).text
        for path in sorted((copy / name).iterdir()):
            tally = Tally(f"flipped bit: {name}/{path.name}")
            content = path.read_bytes()
            for number in range(max(int(100 * share), 1)):
                path.write_bytes(flip(content, draw))
                outcome = child.run(lambda copy=copy, name=name: read_all(copy / name))
                problem = "other values" if outcome.ending == "done" and outcome.text != expected else ""
                checked = child.run(lambda copy=copy, name=name: len(validate_dataset(copy / name)))
                if checked.ending == "traceback" or (checked.ending, checked.text) == ("done", "0"):
                    problem = f"validate: {checked.ending} {checked.text}"
                tally.add(f"number {number}", outcome, problem)
            path.write_bytes(content)
            tallies.append(tally)
    return tallies


def mutate_csv(folder: Path, share: float) -> list[Tally]:
    """Mutated CSV files: refused, or built into a dataset that validates."""
    draw = random.Random(5)
    copy = fresh(folder)
    tallies = []
    names = [f"event000001001-{part}.csv" for part in ("hits", "cells", "truth", "particles")]
    for name in (*names, "detectors.csv"):
        tally = Tally(f"mutated {name.rpartition('-')[2]}")
        content = (copy / "raw" / name).read_bytes()
        for number in range(max(int(100 * share), 1)):
            (copy / "raw" / name).write_bytes(mutate(content, draw))
            build = partial(tracking, copy, "parquet", "out", first=1000, last=1002)
            tally.add(f"number {number}", *_build_and_validate(build, copy))
        (copy / "raw" / name).write_bytes(content)
        tallies.append(tally)
    return tallies


def mutate_root(folder: Path, share: float) -> list[Tally]:
    """Mutated ROOT files: refused, or built into a dataset that validates."""
    draw = random.Random(6)
    copy = fresh(folder)
    tally = Tally("mutated ROOT file")
    content = (copy / "pileup.root").read_bytes()
    for number in range(max(int(500 * share), 1)):
        (copy / "pileup.root").write_bytes(mutate(content, draw))
        tally.add(f"number {number}", *_build_and_validate(partial(pileup, copy), copy))
    return [tally]


def _build_and_validate(build: Callable[[], object], copy: Path) -> tuple[child.Outcome, str]:
    def work() -> object:
        # A damaged number must not become an allocation of all memory.
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        build()
        return "; ".join(map(str, validate_dataset(copy / "out")))

    outcome = child.run(work, timeout=120)
    for name in ("out", "out.partial"):
        shutil.rmtree(copy / name, ignore_errors=True)
    return outcome, outcome.text if outcome.ending == "done" else ""


def mutate_yaml(folder: Path, share: float) -> list[Tally]:
    """Mutated branch maps."""
    draw = random.Random(7)
    copy = fresh(folder)
    tally = Tally("mutated YAML")
    for number in range(max(int(300 * share), 1)):
        (copy / "map.yaml").write_bytes(mutate(BRANCHES.encode(), draw))
        tally.add(f"number {number}", child.run(lambda: read_map(copy / "map.yaml") and ""))
    return [tally]


def mutate_manifest(folder: Path, share: float) -> list[Tally]:
    """Manifests with a valid checksum that say anything: nothing outside of the folder is touched."""
    draw = random.Random(8)
    copy = fresh(folder)
    tally = Tally("hostile manifest")
    path = copy / "second" / MANIFEST_NAME
    original = path.read_text()
    before = sorted(entry.name for entry in copy.iterdir())

    def work() -> object:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        validate_dataset(copy / "second")
        str(open_dataset(copy / "second").info())
        read_all(copy / "second")
        return merge_datasets([copy / "first", copy / "second"], copy / "out") and ""

    for number in range(max(int(600 * share), 1)):
        content = json.loads(original)
        content.pop("checksum")
        change = _spoil(content, draw)
        path.write_bytes(_as_text(content))
        outcome = child.run(work, timeout=120)
        shutil.rmtree(copy / "out", ignore_errors=True)
        left = sorted(entry.name for entry in copy.iterdir())
        tally.add(f"number {number} ({change})", outcome, f"left {left}" if left != before else "")
    return [tally]


def _spoil(content: Any, draw: random.Random) -> str:
    """Replace, remove or rename something at a random place; says what."""
    path = []
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        key = draw.choice(keys)
        path.append(str(key))
        inner = content[key]
        if isinstance(inner, dict | list) and inner and draw.random() < 0.8:
            content = inner
            continue
        kind = draw.randrange(4)
        if kind == 0:
            del content[key]
        elif kind == 1 and isinstance(content, dict):
            content[str(draw.choice(_NASTY))[:300]] = content.pop(key)
        else:
            content[key] = draw.choice(_NASTY)
        return f"{'.'.join(path)} {kind}"


KINDS: dict[str, Callable[[Path, float], list[Tally]]] = {
    "flips": flip_datasets,
    "csv": mutate_csv,
    "root": mutate_root,
    "yaml": mutate_yaml,
    "manifests": mutate_manifest,
}
