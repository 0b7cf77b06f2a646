import numpy as np

from hepdata.features.layers import PIXEL_LAYERS, number_layers


def test_pixel_layers_are_numbered_in_volume_layer_order():
    assert len(PIXEL_LAYERS) == 18
    assert list(PIXEL_LAYERS) == sorted(PIXEL_LAYERS)
    volume, layer = np.array(PIXEL_LAYERS).T
    assert number_layers(volume, layer, PIXEL_LAYERS).tolist() == list(range(18))


def test_a_layer_without_hits_keeps_its_number():
    assert number_layers(np.array([9, 7]), np.array([14, 4]), PIXEL_LAYERS).tolist() == [17, 1]


def test_other_layers_have_no_number():
    volume, layer = np.array([13, 8, 8, 7]), np.array([2, 3, 10, 0])
    assert number_layers(volume, layer, PIXEL_LAYERS).tolist() == [-1, -1, -1, -1]
