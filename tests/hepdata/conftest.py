"""Raw files of both kinds: TrackML events as pandas reads them, Delphes files as cards write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

Events = Sequence[Mapping[str, Sequence[float]]]


MODULE = ["volume_id", "layer_id", "module_id"]


@pytest.fixture(scope="session")
def read_by_pandas() -> Callable[[Path], pd.DataFrame]:
    """Every pixel hit of event 1000 with its features and labels by their definitions, in order of hit_id."""

    def read(folder: Path) -> pd.DataFrame:
        hits, cells, truth, particles = (
            pd.read_csv(folder / f"event000001000-{part}.csv")
            for part in ("hits", "cells", "truth", "particles")
        )
        channels = cells.groupby("hit_id").agg(
            low_u=("ch0", "min"),
            high_u=("ch0", "max"),
            low_v=("ch1", "min"),
            high_v=("ch1", "max"),
            charge_frac=("value", "mean"),
        )
        table = hits.merge(pd.read_csv(folder / "detectors.csv"), on=MODULE).join(channels, on="hit_id")
        table = table.merge(truth[["hit_id", "particle_id", "weight"]], on="hit_id")
        table = table.merge(particles[["particle_id", "px", "py", "pz"]], on="particle_id", how="left")
        table = table[table.volume_id.isin([7, 8, 9])].sort_values("hit_id", ignore_index=True)
        return _add_labels(_add_features(table))

    return read


def _eta(transverse: pd.Series, longitudinal: pd.Series) -> pd.Series:
    return -np.log(np.tan(0.5 * np.arctan2(transverse, longitudinal)))


def _add_features(t: pd.DataFrame) -> pd.DataFrame:
    t["r"], t["phi"] = np.hypot(t.x, t.y), np.arctan2(t.y, t.x)
    t["eta"], t["u"], t["v"] = _eta(t.r, t.z), t.x / t.r**2, t.y / t.r**2
    t["lx"] = (t.high_u - t.low_u + 1) * t.pitch_u
    t["ly"] = (t.high_v - t.low_v + 1) * t.pitch_v
    t["lz"] = 2 * t.module_t
    t["leta"], t["lphi"] = _eta(np.hypot(t.lx, t.ly), t.lz), np.arctan2(t.ly, t.lx)
    gx, gy, gz = (t[f"rot_{i}u"] * t.lx + t[f"rot_{i}v"] * t.ly + t[f"rot_{i}w"] * t.lz for i in "xyz")
    t["geta"], t["gphi"] = _eta(np.hypot(gx, gy), gz), np.arctan2(gy, gx)
    return t


def _add_labels(t: pd.DataFrame) -> pd.DataFrame:
    is_noise = t.particle_id == 0
    # The layers of volumes 7, 8 and 9 are 2, 4, 6, …: 7 layers, then 4, then 7.
    t["layer"] = t.volume_id.map({7: 0, 8: 7, 9: 11}) + t.layer_id // 2 - 1
    t["pt"] = np.hypot(t.px, t.py).mask(is_noise, 0.0)
    t["particle_eta"] = _eta(np.hypot(t.px, t.py), t.pz).mask(is_noise, 0.0)
    by_particle = t.groupby("particle_id")
    t["n_hits"] = by_particle.hit_id.transform("size").mask(is_noise, 0)
    t["n_layers_hit"] = by_particle.layer.transform("nunique").mask(is_noise, 0)
    t["is_reconstructable"] = t.n_layers_hit >= 3
    return t


@pytest.fixture(scope="session")
def is_in_published_sector() -> Callable[[pd.DataFrame, int], pd.Series]:
    """Which hits the cloud of one of the ten published sectors takes, by their azimuth."""

    def is_inside(table: pd.DataFrame, sector: int) -> pd.Series:
        azimuth = np.arctan2(table.v, table.u) + 2 * np.pi * sector / 10
        return np.abs(np.angle(np.exp(1j * azimuth))) < np.arctan(1.3 * np.arctan(np.pi / 10))

    return is_inside


@pytest.fixture
def strips_copy(
    trackml_copy: Path, edit_csv: Callable[[Path, Callable[[pd.DataFrame], pd.DataFrame]], None]
) -> Path:
    """Simulated events to be damaged, whose detector has strip layers too, listed before the pixels.

    The outermost pixel layers are there twice, the second time as strips, with every second hit of them.
    """
    strips = {(8, 8): (13, 2), (7, 2): (12, 12), (9, 14): (18, 12)}

    def rename(table: pd.DataFrame) -> pd.DataFrame:
        names = [strips[pair] for pair in zip(table.volume_id, table.layer_id, strict=True)]
        return table.assign(volume_id=[name[0] for name in names], layer_id=[name[1] for name in names])

    def is_outermost(table: pd.DataFrame) -> list[bool]:
        return [pair in strips for pair in zip(table.volume_id, table.layer_id, strict=True)]

    def move(hits: pd.DataFrame) -> pd.DataFrame:
        moved = hits[is_outermost(hits)][::2]
        return pd.concat([hits.drop(moved.index), rename(moved)])

    edit_csv(trackml_copy / "detectors.csv", lambda t: pd.concat([rename(t[is_outermost(t)]), t]))
    edit_csv(trackml_copy / "event000001000-hits.csv", move)
    return trackml_copy


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
                np.uint8 if leaf == "Particles" else np.int32 if leaf in integers else np.float32,
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


def _draw_particles(n: int, seed: int) -> dict[str, Any]:
    """Leaves of n particles whose momentum, energy and mass agree."""
    rng = np.random.default_rng(seed)
    pt, eta, phi = rng.gamma(2, 0.4, n) + 0.1, rng.uniform(-4, 4, n), rng.uniform(-np.pi, np.pi, n)
    pid = rng.choice([211, -211, 13, 22, 130, 2112], n)
    mass = np.array([{211: 0.13957, 13: 0.10566, 22: 0.0, 130: 0.49761, 2112: 0.93957}[abs(p)] for p in pid])
    is_leading = rng.random(n) < 0.3
    return {
        "PT": pt,
        "Eta": eta,
        "Phi": phi,
        "PID": pid,
        "Charge": np.where(pid == 13, -1, np.where(np.abs(pid) == 211, np.sign(pid), 0)),
        "Mass": mass,
        "P": pt * np.cosh(eta),
        "E": np.hypot(pt * np.cosh(eta), mass),
        "IsPU": ~is_leading,
    }


@pytest.fixture
def candidate_file(write_delphes: Callable[..., str]) -> Path:
    """Three events with pileup, as a branch PF of class GenParticle and as particle-flow candidates."""
    pf, candidates = [], []
    for seed, n in enumerate((400, 250, 300)):
        own = _draw_particles(n, seed)
        own["Px"], own["Py"] = own["PT"] * np.cos(own["Phi"]), own["PT"] * np.sin(own["Phi"])
        own["Rapidity"] = np.arcsinh(own["PT"] * np.sinh(own["Eta"]) / np.hypot(own["PT"], own["Mass"]))
        # Single precision loses the rapidity of particles near the beam; Delphes then writes infinity.
        own["Rapidity"][7] = np.inf
        pf.append(own)
        other = _draw_particles(n // 2, seed + 10)
        other["HardEnergyFraction"] = np.where(other["IsPU"], 0.1, 0.9)
        other["Eem"], other["Ehad"] = other["E"] * 0.4, other["E"] * 0.6
        candidates.append(other)
    return Path(write_delphes({"PF": pf, "ParticleFlowCandidate": candidates}, "candidates.root"))


@pytest.fixture
def eflow_file(write_delphes: Callable[..., str]) -> Path:
    """Three events without pileup and labels: tracks, photons and neutral hadrons of energy flow.

    Every track refers to its generator particle, which keeps ROOT's process number in its own id.
    """
    tracks, photons, hadrons, generated = [], [], [], []
    for seed, n in enumerate((40, 25, 30)):
        track = _draw_particles(n, seed + 20)
        track["Charge"] = np.where(np.arange(n) % 2, 1, -1)
        track["Eta"][3] = 999.9  # along the beam
        track["P"][3] = 7000.0
        track["Particle"] = np.arange(n)[::-1] + 5
        tracks.append({name: values for name, values in track.items() if name not in ("E", "IsPU")})
        for seed_of, n_towers, towers in ((30, n // 2, photons), (40, n // 3, hadrons)):
            tower = _draw_particles(n_towers, seed + seed_of)
            towers.append({"ET": tower["PT"], "Eta": tower["Eta"], "Phi": tower["Phi"], "E": tower["E"]})
        generated.append({"fUniqueID": 2**24 + np.arange(2 * n)})
    branches = {
        "EFlowTrack": tracks,
        "EFlowPhoton": photons,
        "EFlowNeutralHadron": hadrons,
        "Particle": generated,
    }
    return Path(write_delphes(branches, "eflow.root"))


# Types of ColliderML's columns: early files, then released ones.
_COLLIDERML_TYPES = {
    "early": {"id": "int64", "number": "float64", "volume_id": "int64", "layer_id": "int64"}
    | {"surface_id": "int64", "event_id": "int64"},
    "released": {"id": "uint64", "number": "float32", "volume_id": "uint8", "layer_id": "uint16"}
    | {"surface_id": "uint32", "event_id": "uint32"},
}


def _draw_colliderml(event: int) -> dict[str, dict[str, list[Any]]]:
    """Hits of 30 particles on a few layers of the Open Data Detector, some without a recorded particle."""
    rng = np.random.default_rng(event)
    n, ids = 200 + 7 * event, 2**53 + 1 + rng.permutation(40)
    layers = np.array([(16, 4), (17, 2), (17, 4), (17, 6), (17, 8), (18, 2), (24, 2), (24, 4), (30, 12)])
    chosen = layers[rng.integers(0, len(layers), n)]
    phi, r = rng.uniform(-np.pi, np.pi, n), rng.uniform(30, 1000, n)
    particle_id = ids[rng.integers(0, 40, n)]
    particle_id[:5] = 0
    momenta = rng.normal(size=(3, 30))
    lengths = [4, 6, 3]
    taken = rng.permutation(n)[: sum(lengths)]
    # The last hit of the first track is shared with the longer second one.
    taken[3] = taken[4]
    return {
        "tracker_hits": {
            "x": r * np.cos(phi), "y": r * np.sin(phi), "z": rng.normal(0, 400, n),
            "time": rng.uniform(0, 9, n), "volume_id": chosen[:, 0],
            "layer_id": chosen[:, 1], "surface_id": rng.integers(1, 900, n),
            "particle_id": particle_id,
        },
        "particles": {
            "particle_id": ids[:30], "px": momenta[0], "py": momenta[1], "pz": momenta[2],
            "vertex_primary": rng.integers(1, 4, 30),
        },
        "tracks": {"track_id": [7, 3, 9], "hit_ids": np.split(taken, np.cumsum(lengths)[:-1])},
    }  # fmt: skip


@pytest.fixture
def write_colliderml(tmp_path: Path) -> Callable[..., Path]:
    """Write events as ColliderML's files: `write_colliderml("released", change=…)` gives the folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(layout: str = "released", n_events: int = 6, *, change: Any = None, name: str = "raw") -> Path:
        types, folder = _COLLIDERML_TYPES[layout], tmp_path / name
        events = {event: _draw_colliderml(event) for event in range(n_events)}
        if change is not None:
            change(events)

        def typed(key: str, values: Any) -> pa.Array:
            if key == "hit_ids":
                return pa.array([list(map(int, one)) for one in values], pa.list_(pa.int32()))
            kind = types.get(key) or types["id" if key.endswith(("_id", "_primary")) else "number"]
            return pa.array(np.asarray(values).astype(kind))

        for part in ("tracker_hits", "particles", "tracks"):
            (folder / f"ttbar_pu0_{part}").mkdir(parents=True)
            # The parts are divided over files and row groups at different events, hits not in order.
            per_file = {"tracker_hits": 4, "particles": 3, "tracks": 6}[part]
            ids = [event for event in events if part in events[event]][:: -1 if part == "tracker_hits" else 1]
            for number in range(0, len(ids), per_file):
                own = ids[number : number + per_file]
                columns: dict[str, Any] = {"event_id": pa.array(own, types["event_id"])}
                for key in events[own[0]][part]:
                    rows = [typed(key, events[event][part][key]) for event in own]
                    columns[key] = pa.array([row.to_pylist() for row in rows], pa.list_(rows[0].type))
                path = folder / f"ttbar_pu0_{part}" / f"train-{number:05d}.parquet"
                pq.write_table(pa.table(columns), path, row_group_size=2)
        return folder

    return write
