"""Fixtures for Delphes files: one simulated sample, and a writer of files as cards would write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

Events = Sequence[Mapping[str, Sequence[float]]]


@pytest.fixture(scope="session")
def pileup_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve simulated events over 3 soft collisions, about 700 particles each; not to change."""
    from hepdata.simulate.pileup_file import write_pileup

    return write_pileup(tmp_path_factory.mktemp("pileup") / "pileup.root", events=12, pileup=3, seed=2).path


@pytest.fixture
def write_delphes(tmp_path: Path) -> Callable[..., str]:
    """Write `{branch: [event, …]}` with `event = {leaf: values}` as a Delphes tree, leaf by leaf.

    Every leaf has a counter of its own, so that leaves of different lengths can be written too.
    """
    import awkward as ak
    import numpy as np
    import uproot

    integers = {"Charge", "PID", "IsPU", "Particle", "fUniqueID"}

    def write(
        branches: Mapping[str, Events],
        name: str = "card.root",
        *,
        compression: Any = None,
    ) -> str:
        path = tmp_path / name
        columns = {
            f"{branch}.{leaf}": ak.values_astype(
                ak.Array([np.asarray(event[leaf], dtype=np.float64) for event in events]),
                np.int32 if leaf in integers else np.float32,
            )
            for branch, events in branches.items()
            for leaf in events[0]
        }
        with uproot.recreate(path, compression=compression) as file:
            tree = file.mktree(
                "Delphes",
                {key: column.type.content for key, column in columns.items()},
                counter_name=lambda counted: f"n{counted.replace('.', '_')}",
            )
            tree.extend(columns)
        return str(path)

    return write


@pytest.fixture
def make_particles() -> Callable[..., dict[str, list[float]]]:
    """Leaves of n particles of a GenParticle-class branch, the first half from the leading collision."""
    import numpy as np

    def make(n: int, seed: int = 0, **changes: Sequence[float]) -> dict[str, list[float]]:
        rng = np.random.default_rng(seed)
        pt, eta, phi = rng.gamma(2, 0.4, n), rng.uniform(-4, 4, n), rng.uniform(-np.pi, np.pi, n)
        pid = rng.choice([211, -211, 22, 130, 2112], n)
        leaves = {
            "PT": pt,
            "Eta": eta,
            "Phi": phi,
            "Charge": np.where(np.abs(pid) == 211, np.sign(pid), 0),
            "PID": pid,
            "IsPU": np.arange(n) >= n // 2,
            "Px": pt * np.cos(phi),
            "Py": pt * np.sin(phi),
            "E": pt * np.cosh(eta) + 0.1,
            "Rapidity": eta * 0.99,
        }
        return {name: list(np.asarray(values, dtype=float)) for name, values in {**leaves, **changes}.items()}

    return make
