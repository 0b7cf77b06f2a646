import pytest

from hepdata.schema import SCHEMAS, ModelInput


@pytest.mark.parametrize("task", SCHEMAS)
def test_model_inputs_are_columns_and_names_are_unique(task):
    schema = SCHEMAS[task]
    names = [column.name for column in schema.columns]
    assert len(set(names)) == len(names)
    for model_input in (*schema.features, *schema.coordinates):
        assert schema.column(model_input.column).is_label is False


def test_published_inputs_have_their_published_sizes():
    assert len(SCHEMAS["tracking"].features) == 15
    assert len(SCHEMAS["tracking"].coordinates) == 6
    assert len(SCHEMAS["pileup"].features) == 8
    assert len(SCHEMAS["pileup"].coordinates) == 4


def test_a_schema_without_columns_has_no_inputs_from_them():
    lean = SCHEMAS["tracking"].without(frozenset({"lx", "eta"}))
    assert "lx" not in {f.column for f in lean.features}
    assert [c.column for c in lean.coordinates] == ["phi", "r", "phi", "z"]
    with pytest.raises(KeyError, match="lx"):
        lean.column("lx")


def test_a_compressed_angle_has_no_period():
    assert ModelInput("phi", 0.5, period=2.0, spread=4.0).final_period == 0.25
    assert ModelInput("phi", period=2.0, compression="log").final_period is None
