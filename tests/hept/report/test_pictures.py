import numpy as np

from hepdata.pictures.canvas import new_figure
from hept.report.pictures import draw_loss, draw_precision_recall


def test_every_loss_is_a_line_with_its_name():
    _, (panel,) = new_figure()
    draw_loss(panel, {"training": ([1, 2], [0.5, 0.3]), "validation": ([1, 2], [0.6, 0.4])}, title="loss")
    assert [line.get_label() for line in panel.lines] == ["training", "validation"]
    np.testing.assert_allclose(panel.lines[1].get_ydata(), [0.6, 0.4])


def test_long_curves_are_thinned_along_recall():
    _, (panel,) = new_figure()
    recall = np.linspace(0, 1, 100_000) ** 0.1  # most points at high recall
    draw_precision_recall(panel, {"trained": (1 - recall, recall)}, title="")
    x, y = panel.lines[0].get_data()
    assert len(x) <= 2000
    assert np.diff(x).max() < 0.36  # no gap wider than the data's own
    assert np.diff(x[x > 0.5]).max() < 0.002
    np.testing.assert_allclose(y, 1 - x)
    assert x[-1] == 1


def test_short_curves_are_drawn_whole():
    _, (panel,) = new_figure()
    recall = np.array([0.25, 0.5, 1.0])
    draw_precision_recall(panel, {"trained": (np.array([1.0, 0.5, 0.6]), recall)}, title="")
    np.testing.assert_array_equal(panel.lines[0].get_xdata(), recall)


def test_curves_without_positives_are_left_out_and_the_panel_says_so():
    _, (panel,) = new_figure()
    nothing, unknown = np.zeros(0), np.full(3, np.nan)
    draw_precision_recall(panel, {"empty": (nothing, nothing), "noise": (np.zeros(3), unknown)}, title="")
    assert not panel.lines
    assert [text.get_text() for text in panel.texts] == ["no curve: these events hold nothing to find"]
    curve = np.array([0.5, 1.0])
    _, (panel,) = new_figure()
    draw_precision_recall(panel, {"empty": (nothing, nothing), "trained": (curve, curve)}, title="")
    assert [line.get_label() for line in panel.lines] == ["trained"]
    assert not panel.texts
