import numpy as np
import pandas as pd
import pytest

from hepdata.errors import InputError
from hepdata.readers.trackml import read_event
from hepdata.readers.trackml_detector import read_detector
from hepdata.readers.trackml_files import RawFile, find_events


def read(folder):
    return read_detector(RawFile(None, str(folder / "detectors.csv")))


def first_hits(folder):
    return read_event(find_events(folder)[0], with_cells=False, with_truth=False).hits


def test_modules_are_found_by_their_three_numbers(trackml_events):
    detector, hits = read(trackml_events), first_hits(trackml_events)
    row = detector.find_modules(hits, "event 1000")
    modules = pd.read_csv(trackml_events / "detectors.csv").set_index(["volume_id", "layer_id", "module_id"])
    names = list(zip(hits["volume_id"], hits["layer_id"], hits["module_id"], strict=True))
    assert np.allclose(detector.centre[row], modules.loc[names, ["cx", "cy", "cz"]])
    assert np.allclose(detector.pitch[row], modules.loc[names, ["pitch_u", "pitch_v"]])
    assert np.allclose(detector.rotation[row][:, 1, 2], modules.loc[names, "rot_yw"])


def test_order_and_index_column_do_not_matter(trackml_events, trackml_copy, edit_csv):
    edit_csv(
        trackml_copy / "detectors.csv",
        lambda table: table.sample(frac=1, random_state=1).reset_index().rename(columns={"index": ""}),
    )
    ours, theirs = read(trackml_events), read(trackml_copy)
    assert (ours.key == theirs.key).all()
    assert (ours.rotation == theirs.rotation).all()


def test_layers_are_listed_in_order_whatever_the_order_of_the_file(strips_copy):
    modules = pd.read_csv(strips_copy / "detectors.csv")
    assert modules.volume_id.iloc[0] != 7
    layers = read(strips_copy).list_layers()
    assert layers == sorted(set(zip(modules.volume_id, modules.layer_id, strict=True)))
    assert len(layers) == 21
    assert layers[0] == (7, 2)
    assert layers[7] == (8, 2)
    assert layers[-1] == (18, 12)


def test_layers_are_those_of_the_real_detector(real_file):
    detector = read_detector(RawFile(None, str(real_file("data/trackml/detectors.csv.gz"))))
    layers = detector.list_layers()
    assert len(layers) == 48
    assert layers[0] == (7, 2)
    assert layers[7] == (8, 2)
    assert layers[-1] == (18, 12)


def test_the_wrong_kind_of_file(trackml_copy):
    (trackml_copy / "event000001000-hits.csv").replace(trackml_copy / "detectors.csv")
    with pytest.raises(InputError, match=r"no column 'cx'.*a TrackML detectors file"):
        read(trackml_copy)


def test_no_modules(trackml_copy, edit_csv):
    edit_csv(trackml_copy / "detectors.csv", lambda table: table[:0])
    with pytest.raises(InputError, match="found no modules"):
        read(trackml_copy)


def test_a_doubled_module(trackml_copy, edit_csv):
    edit_csv(trackml_copy / "detectors.csv", lambda table: pd.concat([table, table[4:5]]))
    with pytest.raises(InputError, match="the same module twice"):
        read(trackml_copy)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("pitch_u", 0.0, "found pitch_u 0.0; expected a positive length"),
        ("module_t", -0.15, "found module_t -0.15"),
        ("rot_xu", 3.0, "a rotation that is not orthogonal"),
        ("module_id", -1, "found module_id -1"),
        ("volume_id", 2**40, "found volume_id 1099511627776"),
    ],
)
def test_impossible_modules(trackml_copy, edit_csv, column, value, message):
    def spoil(table):
        table.loc[0, column] = value
        return table

    edit_csv(trackml_copy / "detectors.csv", spoil)
    with pytest.raises(InputError, match=message):
        read(trackml_copy)


def test_a_hit_in_a_module_that_the_file_lacks(trackml_copy, edit_csv):
    hits = first_hits(trackml_copy)
    name = [hits[key][7] for key in ("volume_id", "layer_id", "module_id")]

    def remove(table):
        is_it = (table[["volume_id", "layer_id", "module_id"]] == name).all(axis=1)
        return table[~is_it]

    edit_csv(trackml_copy / "detectors.csv", remove)
    with pytest.raises(InputError, match=r"hit \d+ in module {}/{}/{} .*lacks".format(*name)):
        read(trackml_copy).find_modules(hits, "event 1000")


def test_a_detector_of_other_events(trackml_copy, edit_csv):
    edit_csv(trackml_copy / "detectors.csv", lambda table: table.assign(cz=table.cz + 300.0))
    with pytest.raises(
        InputError, match=r"mm from the centre of its module .*the detectors file that belongs"
    ):
        read(trackml_copy).find_modules(first_hits(trackml_copy), "event 1000")
