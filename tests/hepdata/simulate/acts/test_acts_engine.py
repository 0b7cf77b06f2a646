from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hepdata
from hepdata.errors import InputError
from hepdata.readers.trackml import read_event
from hepdata.readers.trackml_detector import read_detector
from hepdata.readers.trackml_files import RawFile, find_events
from hepdata.simulate.acts.simulation import MIN_HITS, NOISE_PIXELS, NOISE_STRIPS

N_EVENTS = 3


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three events of one process."""
    pytest.importorskip("acts", reason="needs pyacts: pip install 'hept[acts]'")
    pytest.importorskip("pythia8mc", reason="needs pythia8mc: pip install 'hept[acts]'")
    out = tmp_path_factory.mktemp("acts")
    hepdata.simulate_tracking(out, events=N_EVENTS, hits_per_event=MIN_HITS, seed=4, engine="acts", workers=1)
    return out


def read(raw: Path, name: str) -> pd.DataFrame:
    """One table of all events."""
    files = sorted(raw.glob(f"*-{name}.csv"))
    return pd.concat([pd.read_csv(f).assign(event=i) for i, f in enumerate(files)], ignore_index=True)


def test_events_are_read_as_those_of_the_challenge(raw):
    detector = read_detector(RawFile(None, str(raw / "detectors.csv")))
    assert len(detector.key) == 18_728
    assert len(detector.list_layers()) == 48
    events = find_events(raw)
    assert [event.event_id for event in events] == [1000, 1001, 1002]
    for files in events:
        event = read_event(files, with_cells=True, with_truth=True)
        detector.find_modules(event.hits, "event")
        assert 0.6 * MIN_HITS < len(event.hits["hit_id"]) < 1.6 * MIN_HITS


def test_every_hit_lies_on_its_module_near_its_truth(raw):
    hits, truth = read(raw, "hits"), read(raw, "truth")
    modules = pd.read_csv(raw / "detectors.csv")
    at = hits.merge(modules, on=["volume_id", "layer_id", "module_id"], how="left")
    rotation = at[[f"rot_{a}{b}" for a in "xyz" for b in "uvw"]].to_numpy().reshape(-1, 3, 3)
    offset = at[["x", "y", "z"]].to_numpy() - at[["cx", "cy", "cz"]].to_numpy()
    u, v, w = np.einsum("ni,nij->nj", offset, rotation).T
    assert np.abs(w).max() < 0.02  # six digits of positions up to 3 m
    assert (np.abs(u) <= at.module_maxhu + 0.01).all()
    assert (np.abs(v) <= at.module_hv + 0.01).all()
    error = truth[["tx", "ty", "tz"]].to_numpy() - hits[["x", "y", "z"]].to_numpy()
    du = np.einsum("ni,nij->nj", error, rotation)[:, 0]
    assert np.median(np.abs(du / at.pitch_u)) < 0.5


def test_hits_of_a_particle_are_along_its_helix(raw):
    truth, particles = read(raw, "truth"), read(raw, "particles")
    merged = truth[truth.particle_id != 0].merge(particles, on=["event", "particle_id"], how="left")
    assert merged.px.notna().all()
    counts = truth[truth.particle_id != 0].groupby(["event", "particle_id"]).size()
    listed = particles.set_index(["event", "particle_id"]).nhits
    pd.testing.assert_series_equal(counts, listed[listed > 0].sort_index(), check_names=False)
    # Particles of high pT point away from their origin.
    pt = np.hypot(merged.px, merged.py)
    stiff = merged[(pt > 2) & (np.hypot(merged.tpx, merged.tpy) > 1.8)]
    way = stiff[["tx", "ty"]].to_numpy() - stiff[["vx", "vy"]].to_numpy()
    to = stiff[["px", "py"]].to_numpy()
    turned = way[:, 0] * to[:, 1] - way[:, 1] * to[:, 0]
    away = (way * to).sum(axis=1)
    assert (np.abs(np.arctan2(turned, away)) < 0.25).mean() > 0.98
    # In 2 T, charges turn opposite ways, and more the farther they go.
    assert (np.sign(turned) == np.sign(stiff.q)).mean() > 0.95


def test_noise_has_the_shares_of_the_challenge_and_its_mark(raw):
    hits, truth = read(raw, "hits"), read(raw, "truth")
    is_noise, is_pixel = truth.particle_id == 0, hits.volume_id.isin([7, 8, 9])
    for part, share in ((is_pixel, NOISE_PIXELS), (~is_pixel, NOISE_STRIPS)):
        n = part.sum()
        assert is_noise[part].mean() == pytest.approx(share, abs=5 * np.sqrt(share / n))
    momentum = np.linalg.norm(truth[["tpx", "tpy", "tpz"]].to_numpy(), axis=1)
    np.testing.assert_allclose(momentum[is_noise], 1e6, rtol=1e-5)
    assert (momentum[~is_noise] < 1e4).all()


def test_clusters_of_one_event_do_not_touch(raw):
    hits, cells = read(raw, "hits"), read(raw, "cells")
    at = cells.merge(hits[["event", "hit_id", "volume_id", "layer_id", "module_id"]], on=["event", "hit_id"])
    place = ["event", "volume_id", "layer_id", "module_id", "ch0", "ch1"]
    assert not at.duplicated(place).any()
    for step in ((0, 1), (1, -1), (1, 0), (1, 1)):
        shifted = at.assign(ch0=at.ch0 + step[0], ch1=at.ch1 + step[1])
        both = at.merge(shifted, on=place)
        assert (both.hit_id_x == both.hit_id_y).all()


def test_strips_are_digital_and_pixels_are_not(raw):
    hits, cells = read(raw, "hits"), read(raw, "cells")
    value = cells.merge(hits, on=["event", "hit_id"]).groupby("volume_id").value
    for volume, values in value:
        assert (values.nunique() > 100) == (volume in (7, 8, 9))


def test_events_do_not_depend_on_processes_or_on_each_other(raw, tmp_path):
    hepdata.simulate_tracking(
        tmp_path, events=2, hits_per_event=MIN_HITS, seed=4, first_event=1001, engine="acts", workers=2
    )
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 9
    for name in names:
        assert (tmp_path / name).read_bytes() == (raw / name).read_bytes(), name


def test_too_few_hits_are_refused(raw, tmp_path):
    with pytest.raises(InputError, match=r"`hits_per_event`: found 2000; expected a number from 3000"):
        hepdata.simulate_tracking(tmp_path / "out", hits_per_event=2000, engine="acts")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("package", ["acts", "pythia8mc"])
def test_a_missing_package_is_named_before_anything_is_written(package, tmp_path, monkeypatch):
    if package == "pythia8mc":
        pytest.importorskip("acts", reason="looked for first: needs the extra [acts]")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"import {package}: .*pip install 'hept\[acts\]'"):
        hepdata.simulate_tracking(tmp_path / "out", engine="acts")
    assert not (tmp_path / "out").exists()


def test_an_unknown_engine_is_refused(tmp_path):
    with pytest.raises(InputError, match="`engine`: found 'geant'"):
        hepdata.simulate_tracking(tmp_path, engine="geant")
