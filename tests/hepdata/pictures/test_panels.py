import numpy as np
from matplotlib.image import imread

from hepdata.pictures.canvas import new_figure, save_figure, share_view
from hepdata.pictures.panels import draw_groups, draw_pileup, group_colors, name_by_majority


def test_a_group_keeps_its_color_in_other_company():
    alone = group_colors(np.array([4505867370102784]))
    crowd = group_colors(np.array([1, 4505867370102784, 7, 4505867370102784]))
    np.testing.assert_array_equal(alone[0], crowd[1])
    np.testing.assert_array_equal(crowd[1], crowd[3])
    assert not np.array_equal(crowd[0], crowd[1])


def test_groups_are_named_after_their_majority():
    found = np.array([5, 5, 5, 9, 9, -1])
    truth = np.array([30, 30, 10, 10, 10, 30])
    assert name_by_majority(found, truth).tolist() == [30, 30, 30, 10, 10, -1]


def test_nothing_grouped_stays_nameless():
    assert name_by_majority(np.array([-1, -1]), np.array([3, 4])).tolist() == [-1, -1]
    assert name_by_majority(np.array([], int), np.array([], int)).tolist() == []


def test_tracks_are_not_joined_across_the_seam():
    _, (panel,) = new_figure()
    eta, phi = np.array([0.0, 0.1, 0.2]), np.array([3.1, -3.1, -3.0])
    draw_groups(panel, eta, phi, np.array([5, 5, 5]), title="", joined_along=np.array([1.0, 2.0, 3.0]))
    lines = panel.collections[1].get_segments()
    assert len(lines) == 1
    np.testing.assert_allclose(lines[0], [[0.1, -3.1], [0.2, -3.0]])


def test_pictures_become_files_with_ink_on_them(tmp_path):
    figure, panels = new_figure(2)
    eta, phi = np.linspace(-3, 3, 50), np.linspace(-3, 3, 50)
    draw_groups(panels[0], eta, phi, np.arange(50) % 7, title="groups")
    draw_pileup(
        panels[1], eta, phi, np.full(50, 2.0), np.where(eta > 0, np.nan, 0.8), title="p", colorbar="score"
    )
    share_view(panels)
    assert panels[0].get_xlim() == panels[1].get_xlim()
    pixels = imread(save_figure(figure, tmp_path / "new" / "event.png"))
    assert pixels.shape[0] > 300
    assert pixels[..., :3].std() > 0.02
