"""Folds, what is kept of them, and ratios between systems."""

import json

import numpy as np
import pytest

from benchmarks import pileup_study
from benchmarks.pileup_study import COMPARED, FIGURES, compare, keep, restore, split_fold, tabulate
from hept.metrics.cleaning import Cleaning


def make_account(name, seed, n_events=6):
    """Events of two jets over soft particles, under the weight `name`."""
    account = Cleaning(weights=(name,))
    for event in range(n_events):
        rng = np.random.default_rng([seed, event])
        is_leading = np.arange(200) < 40
        jet = np.arange(200) % 2
        eta = np.where(is_leading, rng.normal(jet, 0.05, 200), rng.uniform(-4, 4, 200))
        phi = np.where(is_leading, rng.normal(3 * jet - 1.5, 0.05, 200), rng.uniform(-3.1, 3.1, 200))
        pt = np.where(is_leading, rng.exponential(3, 200) + 1, rng.exponential(0.7, 200) + 0.2)
        charge = rng.integers(-1, 2, 200)
        columns = {
            "eta": eta,
            "phi": phi,
            "pt": pt,
            "px": pt * np.cos(phi),
            "py": pt * np.sin(phi),
            "energy": pt * np.cosh(eta),
            "charge": charge,
            "is_leading": is_leading,
            "is_scored": charge == 0,
        }
        account.add(columns, rng.random(200))
    return account


def parse(rule):
    parts = {}
    for item in rule.split(","):
        part, event = item.split("=")
        parts.setdefault(part, []).append(int(event))
    return parts


def test_every_event_is_tested_once_and_never_trained_on_in_its_fold():
    # A file of 100 events of which 50 are used, and one of 20.
    tested = []
    for fold in range(5):
        parts = parse(split_fold([0, 100], [50, 20], [30, 5], fold, 5))
        events = [event for part in parts.values() for event in part]
        assert len(events) == len(set(events))
        assert len([event for event in parts["train"] if event < 100]) == 30
        assert len([event for event in parts["train"] if event >= 100]) == 5
        tested += parts["test"]
    assert sorted(tested) == [*range(50), *range(100, 120)]


def test_folds_are_put_together_again(tmp_path, monkeypatch):
    pytest.importorskip("fastjet", reason="needs the extra [jets]: pip install 'hept[jets]'")
    monkeypatch.setattr(pileup_study, "N_RESAMPLED", 20)
    for fold in range(2):
        (tmp_path / f"fold-{fold}").mkdir()
        for name in ("puppi", "chs"):
            record = {"sample": keep(make_account(name, fold))}
            (tmp_path / f"fold-{fold}" / f"{name}.json").write_text(json.dumps(record))
    table = tabulate(tmp_path)["sample"]
    whole = make_account("chs", 0)
    other = make_account("chs", 1)
    whole.true_met += other.true_met
    whole.met["chs"] += other.met["chs"]
    assert (table["chs"]["folds"], table["chs"]["events"], table["chs"]["jets"]) == (2, 12, 24)
    expected = whole.missing_pt("chs")
    assert table["chs"]["along"] == pytest.approx(expected["parallel"])
    assert table["chs"]["missing-pT resolution, GeV"] == pytest.approx(expected["resolution"])
    whole.jets["chs", 0.4].extend(other.jets["chs", 0.4])
    assert table["chs"]["jet resolution"] == pytest.approx(whole.jets["chs", 0.4].result()["resolution"])
    assert table["puppi"]["to PUPPI"] == {name: [1.0, 1.0, 1.0] for name in COMPARED}


def test_a_ratio_is_that_of_the_figures_within_its_interval(monkeypatch):
    pytest.importorskip("fastjet", reason="needs the extra [jets]: pip install 'hept[jets]'")
    monkeypatch.setattr(pileup_study, "N_RESAMPLED", 50)
    one, other = (restore([keep(make_account(name, 0, 12))]) for name in ("chs", "none"))
    events = np.arange(12)
    for name, (ratio, low, high) in compare(one, other).items():
        assert ratio == pytest.approx(FIGURES[name](one, events) / FIGURES[name](other, events))
        assert low < high
        assert low * 0.8 < ratio < high * 1.25
