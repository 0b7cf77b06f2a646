"""Damaged files of a run, and weights of others: refused in one line, or used as they were written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import hept
from benchmarks.faults.damage import flip, mutate, spoil
from benchmarks.faults.jobs import read_numbers
from benchmarks.faults.kills import fresh
from benchmarks.faults.tally import Kind, Tally


def read_weights(copy: Path, name: str) -> str:
    """All that a weights file says."""
    model = hept.load_model(copy / "run" / name)
    return f"{_digest(model.network)} {model.features} {model.coords} {model.config}"


def read_published(copy: Path, name: str, *, has_checksums: bool) -> str:
    """The numbers of the authors' checkpoint; torch before 1.6 wrote files without checksums."""
    model = hept.load_published(copy / name)
    return _digest(model) if has_checksums else ""


def _digest(network: object) -> str:
    digest = sha256()
    for name, tensor in network.state_dict().items():
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def resume(copy: Path, *, without_newest: bool) -> str:
    """Go on with a run to its end; without its newest state, its last step is made again."""
    shutil.copytree(copy / "run", copy / "out")
    if without_newest:
        (copy / "out" / "resume.pt").unlink()
    hept.fit(resume=copy / "out", device="cpu")
    # Tables are for people, and have no checksum.
    numbers = [read_numbers(copy / "out" / name) for name in ("best.safetensors", "last.safetensors")]
    return sha256(b"".join(numbers)).hexdigest()


def read_history(copy: Path) -> str:
    """What tables of a run show."""
    run = hept.open_run(copy / "run")
    run.history()
    return "" if f"{run!r}{run._repr_html_()}" else "nothing"


def evaluate(copy: Path) -> str:
    """Figures of merit, with the clustering that was chosen for the run; people may choose another."""
    hept.evaluate(copy / "run", copy / "all", threads=1)
    return ""


def flip_runs(folder: Path, share: float) -> Iterator[Tally]:
    """One bit of any file of a run, or of the authors' checkpoint in both of torch's formats."""
    copy = fresh(folder)
    readers = {
        "best.safetensors": (partial(read_weights, name="best.safetensors"), 150),
        "last.safetensors": (partial(read_weights, name="last.safetensors"), 50),
        "resume.pt": (partial(resume, without_newest=False), 150),
        "resume-1.pt": (partial(resume, without_newest=False), 30),
        "run.json": (partial(resume, without_newest=True), 100),
        "config.yaml": (partial(resume, without_newest=True), 100),
    }
    for name, (read, n_tries) in readers.items():
        yield spoil("bit flipped", f"run/{name}", copy / "run" / name, flip, read, n_tries, share)
    for name, has_checksums in (("published.pt", True), ("published-old.pt", False)):
        read = partial(read_published, name=name, has_checksums=has_checksums)
        yield spoil("bit flipped", name, copy / name, flip, read, 100, share)


def mutate_runs(folder: Path, share: float) -> Iterator[Tally]:
    """Mutated text files of a run, and weights of any kind that are cut or have holes."""
    copy = fresh(folder)
    readers = {
        "metrics.csv": (read_history, 50),
        "clustering.json": (evaluate, 40),
        "run.json": (partial(resume, without_newest=True), 50),
        "config.yaml": (partial(resume, without_newest=True), 50),
        "steps.csv": (partial(resume, without_newest=True), 50),
        "resume.pt": (partial(resume, without_newest=False), 50),
        "best.safetensors": (partial(read_weights, name="best.safetensors"), 50),
    }
    for name, (read, n_tries) in readers.items():
        yield spoil("mutated", f"run/{name}", copy / "run" / name, mutate, read, n_tries, share)


KINDS: dict[str, Kind] = {"runs": flip_runs, "mutated-runs": mutate_runs}
