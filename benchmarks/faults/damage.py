"""Damaged files, by accident or on purpose: refused in one line, or read as they were written."""

from __future__ import annotations

import random
import resource
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import hepdata
from benchmarks.faults import child
from benchmarks.faults.jobs import build, pileup
from benchmarks.faults.kills import fresh
from benchmarks.faults.tally import Kind, Tally, spread
from hept.settings.load import load_config

# Reads a file that was damaged, in the folder of all files; what it answers must not depend on the damage.
Reader = Callable[[Path], object]
Change = Callable[[bytes, random.Random], bytes]

MOST_MEMORY = 8 << 30
BRANCHES = """\
collections:
  - branch: PF
    label: IsPU
    leaves: {pt: PT, eta: Eta, phi: Phi, charge: Charge, pid: PID}
"""
PRESET = """\
extends: tracking-demo
epochs: 2
model: {n_layers: 1, hidden_dim: 4, n_heads: 2, block_size: 20, kernel: dot}
data:
  features: [{column: "*", standardise: true}]
  coords: [eta, phi, r, {column: phi, scale: 0.318}]
optimizer: {lr: 1.0e-3}
"""


def flip(content: bytes, draw: random.Random) -> bytes:
    """One bit changed; half of the time in the first 4 kB, where headers are."""
    changed = bytearray(content)
    changed[draw.randrange(min(len(changed), draw.choice([4096, len(changed)])))] ^= 1 << draw.randrange(8)
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


def spoil(
    fault: str, target: str, path: Path, change: Change, read: Reader, n_tries: int, share: float
) -> Tally:
    """Damage a file again and again; whoever reads it refuses it, or answers as before.

    Args:
        fault: What is done.
        target: To what.
        path: The file, in a folder made by `fresh`.
        change: How to damage it.
        read: Reads it, in a child.
        n_tries: How often, for a share of 1.
        share: Of the tries.
    """
    tally, whole = Tally(fault, target), path.read_bytes()
    expected = answer(read, path)
    if expected.ending != "done":
        raise SystemExit(f"{target} cannot be read before it is damaged: {expected.text}")
    for number in spread(n_tries, share):
        path.write_bytes(change(whole, random.Random(f"{fault} {target} {number}")))
        outcome = answer(read, path)
        is_other = outcome.ending == "done" and outcome.text != expected.text
        tally.add(f"number {number}", outcome, "another answer" if is_other else "")
    path.write_bytes(whole)
    return tally


def answer(read: Reader, path: Path) -> child.Outcome:
    """What a reader says of the files around `path`; what it made there is removed."""
    copy = next(parent for parent in path.parents if parent.name == "copy")

    def work() -> object:
        # A damaged number must not become an allocation of all memory.
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        return read(copy)

    outcome = child.run(work, timeout=120)
    for name in ("out", "out.partial"):
        shutil.rmtree(copy / name, ignore_errors=True)
    return outcome


def read_dataset(folder: Path) -> str:
    """A checksum over everything that a reader gets."""
    digest = sha256()
    dataset = hepdata.open_dataset(folder)
    for split in dataset:
        for cloud in dataset[split]:
            for name, values in cloud.columns.items():
                digest.update(name.encode() + values.tobytes())
            for pairs in (cloud.positives, cloud.negatives):
                if pairs is not None:
                    digest.update(pairs.ptr.tobytes() + pairs.idx.tobytes())
    return digest.hexdigest()


def build_and_validate(copy: Path, build: Reader) -> str:
    """Build a dataset; what validation finds wrong with it."""
    build(copy)
    return "; ".join(map(str, hepdata.validate(copy / "out")))


def read_and_validate(copy: Path, name: str, whole: bytes) -> str:
    """What a reader gets of a dataset; `validate` must know whether the named file is damaged."""
    path = copy / name
    try:
        is_found = bool(hepdata.validate(path.parent))
    except hepdata.InputError:
        is_found = True
    if is_found == (path.read_bytes() == whole):
        return "validate is wrong"
    return read_dataset(path.parent)


def flip_datasets(folder: Path, share: float) -> Iterator[Tally]:
    """One bit of any file of a dataset: reading refuses it or gives what was written; `validate` finds it."""
    copy = fresh(folder)
    for path in sorted([*(copy / "first").iterdir(), *(copy / "first-h5").iterdir()]):
        name = str(path.relative_to(copy))
        read = partial(read_and_validate, name=name, whole=path.read_bytes())
        yield spoil("bit flipped", name, path, flip, read, 60, share)


def mutate_raw(folder: Path, share: float) -> Iterator[Tally]:
    """Mutated raw files: refused, or built into a dataset that validates."""
    copy = fresh(folder)
    read_csv = partial(build_and_validate, build=partial(build, events="1000-1002"))
    files = {
        f"{part}.csv": f"raw/event000001001-{part}.csv" for part in ("hits", "cells", "truth", "particles")
    }
    for name, file in (files | {"detectors.csv": "raw/detectors.csv"}).items():
        yield spoil("mutated", name, copy / file, mutate, read_csv, 80, share)
    read_root = partial(build_and_validate, build=pileup)
    yield spoil("mutated", "ROOT file", copy / "pileup.root", mutate, read_root, 400, share)


def mutate_yaml(folder: Path, share: float) -> Iterator[Tally]:
    """Mutated settings and branch maps: refused, or taken for others."""
    copy = fresh(folder)
    (copy / "preset.yaml").write_text(PRESET)
    (copy / "branches.yaml").write_text(BRANCHES)
    yield spoil("mutated", "preset (YAML)", copy / "preset.yaml", mutate, read_preset, 250, share)
    yield spoil("mutated", "branch map (YAML)", copy / "branches.yaml", mutate, read_branches, 150, share)


def read_preset(copy: Path) -> str:
    """Take a file for a preset."""
    load_config(str(copy / "preset.yaml"))
    return ""


def read_branches(copy: Path) -> str:
    """Take a file for a map of branches."""
    hepdata.inspect(copy / "pileup.root", branches=str(copy / "branches.yaml"))
    return ""


KINDS: dict[str, Kind] = {"datasets": flip_datasets, "raw": mutate_raw, "yaml": mutate_yaml}
