"""Simulated pileup events as a Delphes ROOT file: a `Delphes` tree with a GenParticle-class branch `PF`."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import awkward as ak
import numpy as np
import uproot
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.progress import Progress, Silent
from hepdata.schema import SCORED_PT
from hepdata.simulate.pileup import Particles, simulate_event

_EVENTS_PER_BASKET = 10
_LEAVES = {
    "fUniqueID": "uint32",
    "PID": "int32",
    "Status": "int32",
    "IsPU": "int32",
    "Charge": "int32",
    **dict.fromkeys(("Mass", "E", "Px", "Py", "Pz", "P", "PT", "Eta", "Phi", "Rapidity"), "float32"),
    **dict.fromkeys(("T", "X", "Y", "Z"), "float32"),
}
_WRITTEN_ON = datetime.datetime(2024, 1, 1)


@dataclass(frozen=True)
class PileupSample:
    """What was written: counts over the whole file."""

    path: Path
    n_events: int
    n_points: int
    n_charged: int
    n_leading: int
    n_scored: int
    n_scored_leading: int


def write_pileup(
    path: Path,
    *,
    events: int,
    pileup: float,
    seed: int,
    pileup_max: float | None = None,
    progress: Progress | None = None,
) -> PileupSample:
    """Simulate events and write them to a ROOT file; the file appears complete or not at all.

    The same arguments give the same bytes.

    Args:
        path: The ROOT file.
        events: How many to make.
        pileup: Mean number of soft collisions under each.
        seed: Seed of the sample, non-negative.
        pileup_max: The mean number of each event is drawn evenly from `pileup` to this one.
        progress: Listener.

    Raises:
        InputError: An argument is out of range, or the file cannot be written.
    """
    _check("events", events, events >= 1, "at least 1")
    _check("pileup", pileup, 0 <= pileup <= 1000, "between 0 and 1000")
    last = pileup if pileup_max is None else pileup_max
    _check("pileup_max", last, pileup <= last <= 1000, f"between `pileup`, {pileup:g}, and 1000")
    _check("seed", seed, seed >= 0, "0 or more")
    listener = progress or Silent()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            # A ROOT file contains its own name: a fixed one, so that the bytes do not depend on `path`.
            staging = Path(folder) / "pileup.root"
            counts = _write_tree(staging, events, (pileup, last), seed, listener)
            staging.replace(path)
    except OSError as error:
        raise InputError(
            path,
            found=f"a path that cannot be written ({error.strerror or error})",
            expected="a file in a writable folder",
            remedy="choose another path",
        ) from error
    finally:
        listener.finish()
    return PileupSample(path, events, *(int(count) for count in counts))


def _check(name: str, value: float, is_good: bool, expected: str) -> None:
    if not is_good:
        raise InputError(f"`{name}`", found=str(value), expected=expected, remedy="give another value")


def _write_tree(
    path: Path, events: int, pileup: tuple[float, float], seed: int, listener: Progress
) -> NDArray[np.int64]:
    listener.start("simulating", events, "event")
    counts = np.zeros(5, dtype=np.int64)
    identity = uuid.UUID(int=(seed << 64 | events) % (1 << 128))
    with (
        _stopped_clock(),
        uproot.recreate(path, compression=uproot.ZLIB(1), uuid_function=lambda: identity) as file,
    ):
        tree = file.mktree(
            "Delphes",
            {"PF": "var * {" + ", ".join(f"{name}: {dtype}" for name, dtype in _LEAVES.items()) + "}"},
            title="Analysis tree",
            field_name=lambda outer, inner: f"{outer}.{inner}" if outer else inner,
            counter_name=lambda counted: f"{counted}_size",
        )
        for first in range(0, events, _EVENTS_PER_BASKET):
            batch = []
            for event in range(first, min(first + _EVENTS_PER_BASKET, events)):
                mean = np.random.default_rng([seed, event, 1]).uniform(*pileup)
                batch.append(simulate_event(mean, seed, event))
                counts += _count(batch[-1])
                listener.advance()
            sizes = [len(particles) for particles in batch]
            columns = [_leaves(particles) for particles in batch]
            flat = {name: np.concatenate([leaves[name] for leaves in columns]) for name in _LEAVES}
            tree.extend({"PF": ak.unflatten(ak.zip(flat), sizes)})
    return counts


@contextmanager
def _stopped_clock() -> Iterator[None]:
    """Let uproot stamp a fixed date: it has no option for that, and equal samples must be equal files."""
    stamp = uproot._util.datetime_to_code
    uproot._util.datetime_to_code = lambda _: stamp(_WRITTEN_ON)
    try:
        yield
    finally:
        uproot._util.datetime_to_code = stamp


def _leaves(particles: Particles) -> dict[str, NDArray[np.generic]]:
    """The GenParticle leaves of one event; X, Y, Z are the position of the collision."""
    n = len(particles)
    pt, mass = particles.pt, particles.mass
    pz = pt * np.sinh(particles.eta)
    momentum = pt * np.cosh(particles.eta)
    values = {
        "fUniqueID": np.arange(1, n + 1),
        "PID": particles.pid,
        "Status": np.ones(n),
        "IsPU": particles.is_pileup,
        "Charge": particles.charge,
        "Mass": mass,
        "E": np.hypot(momentum, mass),
        "Px": pt * np.cos(particles.phi),
        "Py": pt * np.sin(particles.phi),
        "Pz": pz,
        "P": momentum,
        "PT": pt,
        "Eta": particles.eta,
        "Phi": particles.phi,
        "Rapidity": np.arcsinh(pz / np.hypot(pt, mass)),
        "T": np.zeros(n),
        "X": np.zeros(n),
        "Y": np.zeros(n),
        "Z": particles.vertex_z,
    }
    return {name: np.asarray(values[name]).astype(dtype) for name, dtype in _LEAVES.items()}


def _count(particles: Particles) -> NDArray[np.int64]:
    is_leading = ~particles.is_pileup
    is_scored = (particles.charge == 0) & (particles.pt > SCORED_PT)
    return np.array(
        [
            len(particles),
            np.count_nonzero(particles.charge),
            np.count_nonzero(is_leading),
            np.count_nonzero(is_scored),
            np.count_nonzero(is_scored & is_leading),
        ]
    )
