import numpy as np
import pytest

from hepdata.errors import InputError
from hepdata.features.layers import PIXEL_LAYERS, TRACKML_LAYERS, list_layers, number_layers, parse_layers
from hepdata.readers.trackml_detector import read_detector
from hepdata.readers.trackml_files import RawFile


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


def test_the_strips_of_the_detector_follow_the_pixels():
    layers = TRACKML_LAYERS["pixel+strip"]
    assert layers[:18] == PIXEL_LAYERS
    assert len(set(layers)) == len(layers) == 48
    assert list(layers) == sorted(layers)


def test_the_named_layers_are_those_of_the_real_detector(real_file):
    detector = read_detector(RawFile(None, str(real_file("data/trackml/detectors.csv.gz"))))
    assert list(TRACKML_LAYERS["pixel+strip"]) == detector.list_layers()


def test_layers_from_a_list(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("layers: [[8, 4], [7, 2]]\n")
    assert parse_layers(str(path)) == ((8, 4), (7, 2))
    assert number_layers(np.array([7, 8, 8]), np.array([2, 4, 2]), parse_layers(str(path))).tolist() == [
        1,
        0,
        -1,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layers: []", "no list called layers"),
        ("[8, 2]", "no list called layers"),
        ("layers: [[8, 2], 4]", "the entry 4"),
        ("layers: [[8, -2]]", r"the entry \[8, -2\]"),
        ("layers: [[8, 2], [8, 2]]", r"\[8, 2\] twice"),
        ("layers: [", "a file that cannot be read"),
    ],
)
def test_lists_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        parse_layers(str(path))


def test_a_misspelled_choice():
    with pytest.raises(InputError, match=r"`layers`: found 'pixels'.*did you mean 'pixel'"):
        parse_layers("pixels")
    with pytest.raises(InputError, match="`layers`: found 'all'"):
        list_layers("all", TRACKML_LAYERS)
