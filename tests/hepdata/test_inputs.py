from dataclasses import asdict, replace
from math import pi

import pytest

from hepdata.errors import InputError
from hepdata.inputs import check_inputs, choose_inputs
from hepdata.schema import PILEUP, TRACKING, ModelInput


def choose(schema, chosen, kind="features"):
    return choose_inputs(schema, getattr(schema, kind), chosen, where="data.features")


def test_nothing_said_is_the_dataset_s_own_list():
    assert choose(TRACKING, None) == TRACKING.features
    assert choose(TRACKING, None, "coordinates") == TRACKING.coordinates


def test_every_input_can_be_spelled_out_by_itself():
    for schema in (TRACKING, PILEUP):
        for kind in ("features", "coordinates"):
            said = [asdict(entry) for entry in getattr(schema, kind)]
            assert choose(schema, said, kind) == getattr(schema, kind)


def test_a_column_can_come_twice_with_two_scales():
    found = choose(TRACKING, ["phi", {"column": "phi", "scale": 0.318}], "coordinates")
    assert [(entry.column, entry.scale) for entry in found] == [("phi", 1.0), ("phi", 0.318)]
    assert [entry.final_period for entry in found] == pytest.approx([2 * pi, 2 * pi * 0.318])


def test_a_name_has_what_the_dataset_s_list_says_and_otherwise_what_the_column_says():
    z, pt = choose(TRACKING, ["z", "pt"])
    assert (z.scale, z.unit) == (1e-3, "mm")
    assert (pt.scale, pt.unit) == (1.0, "GeV")


def test_a_star_is_every_input_that_is_not_named_otherwise():
    starred = choose(PILEUP, [{"column": "pt", "compression": "log"}, {"column": "*", "standardise": True}])
    assert [entry.column for entry in starred] == [
        *("pt", "eta", "phi", "px", "py", "energy", "rapidity", "pid_class")
    ]
    assert [entry.standardise for entry in starred] == [False, *[True] * 6, False]
    assert starred[0].compression == "log"
    # Classes are names: what holds for every number does not hold for them.
    assert starred[-1] == PILEUP.features[-1]
    straight = choose(TRACKING, [{"column": "*", "period": None}], "coordinates")
    assert straight == tuple(replace(entry, period=None) for entry in TRACKING.coordinates)


def test_classes_and_numbers_can_be_taken_for_each_other():
    assert choose(TRACKING, [{"column": "layer", "n_classes": 18}]) == (ModelInput("layer", n_classes=18),)
    assert choose(PILEUP, [{"column": "pid_class", "n_classes": 0}])[0].n_classes == 0


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("etta", r"column 'etta': found no such column; expected a column of this pileup.*mean 'eta'"),
        ({"scale": 2}, r"found the input \{'scale': 2\}; expected a column's name, or fields"),
        (7, "found the input 7; expected"),
        (
            {"column": "pt", "scal": 2},
            "found the unknown field 'scal' of the input 'pt'.*did you mean 'scale'",
        ),
        ({"column": "pt", "scale": "big"}, "found scale of the input 'pt': 'big'; expected .*valid number"),
        ({"column": "pt", "scale": 0}, "scale of pt: got 0.0, need a number other than 0"),
        ({"column": "pt", "scale": float("nan")}, "scale of pt: got nan"),
        ({"column": "pt", "period": -1}, "period of pt: got -1.0, need a positive number"),
        ({"column": "pt", "spread": 0}, "shift and spread of pt: got 0.0 and 0.0"),
        ({"column": "pt", "compression": "square"}, "compression of the input 'pt': 'square'; expected.*log"),
        ({"column": "pt", "n_classes": -1}, "n_classes of pt: got -1"),
        ({"column": "pid_class", "scale": 2}, "pid_class names classes: got a scale"),
        ({"column": "pid_class", "standardise": True}, "neither compressed nor standardised"),
        ({"column": "pt", "unit": "MeV"}, "the column 'pt' with the unit 'GeV'; expected the unit 'MeV'"),
        ({"column": "pid_class", "n_classes": 3}, "with the number of classes 8; expected .* 3"),
    ],
)
def test_choices_that_fit_nothing_are_one_line(choice, message):
    with pytest.raises(InputError, match=message) as caught:
        choose(PILEUP, ["eta", choice])
    assert "\n" not in str(caught.value)


def test_an_empty_list_is_no_choice():
    with pytest.raises(InputError, match="found an empty list; expected at least one input"):
        choose(PILEUP, [])


def test_a_dataset_that_stores_something_else_is_refused():
    def check(entry):
        check_inputs(TRACKING, [entry], where="data/trk", whose="the model m")

    check(ModelInput("r", 1e-3, unit="mm"))
    with pytest.raises(
        InputError, match="data/trk: found no column 'pz'; expected the input 'pz' of the model m"
    ):
        check(ModelInput("pz"))
    with pytest.raises(InputError, match="column 'r' with the unit 'mm'; expected the unit 'm' of the input"):
        check(ModelInput("r", unit="m"))
    with pytest.raises(InputError, match=r"column 'phi' with the period 6.28.*expected the period 360"):
        check(ModelInput("phi", unit="rad", period=360.0))
