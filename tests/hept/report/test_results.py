"""Report and pictures show the same numbers, with their uncertainties."""

import re

import numpy as np
import pytest

from hepdata.loader.dataset import open_dataset
from hept.metrics.track_score import TrackScore
from hept.metrics.tracks import EventTruth, TargetCuts, match_labels
from hept.model.weights import load_model
from hept.report.figures import draw_efficiencies, draw_quality
from hept.report.results import collect_results
from hept.report.write import write_report
from hept.training.trainer import fit


@pytest.fixture(scope="module", params=["tracking", "pileup"])
def trained(request, tmp_path_factory):
    from hept.settings.load import load_config

    small = ["model.n_layers=1", "model.hidden_dim=8", "model.n_heads=2", "epochs=2"]
    location = request.getfixturevalue(f"{request.param}_dataset")
    folder = tmp_path_factory.mktemp("runs") / request.param
    run = fit(load_config(f"{request.param}-demo", small), location, folder).run
    return run, open_dataset(location)


def test_a_picture_and_the_report_have_the_same_areas(trained):
    run, dataset = trained
    page = write_report(run, dataset).read_text(encoding="utf-8")
    results = collect_results(load_model(run), run, dataset, "test")
    figure = draw_quality(results.curves, "title")
    labels = [text.get_text() for panel in figure.axes for text in panel.get_legend().get_texts()]
    for name, curve in results.curves.items():
        assert f"{name}: average precision {curve.auc:.3f}" in labels
        assert f"{name}: ROC AUC {curve.roc_auc:.3f}" in labels
        row = re.search(f'<td>{name}</td><td class="number">([^<]*)</td><td class="note">([^<]*)</td>', page)
        assert row is not None
        assert row.groups() == (f"{curve.auc:.4g}", f"{curve.roc_auc:.4g}")
    assert "average precision (AUC in the paper)</th><th>ROC AUC</th>" in page


def test_the_areas_of_a_classifier_are_its_metrics(trained):
    run, dataset = trained
    results = collect_results(load_model(run), run, dataset, "test")
    if not results.trained.is_embedding:
        metrics, curves = results.after.metrics, results.curves
        assert (metrics["auc"], metrics["roc_auc"]) == (curves["trained"].auc, curves["trained"].roc_auc)
        assert metrics["auc_puppi"] == results.after.cleaning.classify("puppi").auc
        assert results.before.metrics["auc"] == curves["untrained"].auc
    assert results.curves["untrained"].auc != results.curves["trained"].auc


def test_efficiencies_have_error_bars_and_counts():
    track = np.repeat([0, 1, -1, 2], 3)
    particle = np.repeat([1, 2, 3, 4], 3)
    pt, eta = np.repeat([1.0, 1.1, 1.2, 4.0], 3), np.repeat([0.1, 0.2, 0.3, -1.0], 3)
    truth = EventTruth(particle, particle > 0, {"pt": pt, "eta": eta}, np.ones(12))
    rates = TrackScore((match_labels(track, truth),))
    figure = draw_efficiencies(rates)
    efficiency = rates.against("pt", np.array([0.9, 1.3]))["efficiency"]
    (low,), (high,) = efficiency.interval()
    bars = [
        segment
        for container in figure.axes[0].containers
        if container.get_label() == "efficiency"
        for segment in container.lines[2][0].get_segments()
    ]
    # Two bins with particles: 0.9 to 1.3 GeV, where two of three are found, and 3 to 5 GeV.
    assert len(bars) == 2
    np.testing.assert_allclose(sorted(bars[0][:, 1]), [low, high])
    counts = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert counts == ["4 particles", "3 tracks"]


def test_tracks_of_noise_are_at_no_eta():
    track, particle = np.repeat([0, 1], 3), np.repeat([0, 5], 3)
    eta = np.where(particle > 0, 0.2, 0.0)
    truth = EventTruth(particle, particle > 0, {"pt": particle * 1.0, "eta": eta}, np.ones(6))
    rates = TrackScore((match_labels(track, truth),), TargetCuts())
    binned = rates.against("eta", np.array([-0.5, 0.1, 0.5]))["fake_rate"]
    assert (binned.n_all.tolist(), binned.n_passed.tolist()) == ([0, 1], [0, 0])
    assert rates.summary()["fake_rate"] == 0.5
