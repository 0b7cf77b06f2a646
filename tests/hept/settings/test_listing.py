"""Every setting explains itself."""

import json

import pytest
from click.testing import CliRunner

from hepdata.errors import InputError
from hept.settings.listing import list_settings, read_setting
from hept.settings.load import list_presets, load_config
from hept.settings.train_config import list_keys
from hept_cli.train_describe import command as describe
from hept_cli.train_settings import command


def test_every_setting_has_a_meaning_and_a_type():
    settings = list_settings()
    assert [setting.name for setting in settings] == list_keys()
    for setting in settings:
        assert setting.meaning.endswith("."), setting.name
        assert "Literal" not in setting.type
        assert "<class" not in setting.type


def test_presets_that_change_a_setting_are_those_whose_value_differs():
    for setting in list_settings():
        for preset in list_presets():
            value = read_setting(load_config(preset), setting.name)
            if preset in setting.presets:
                assert setting.presets[preset] == value
            else:
                assert value == setting.default


def test_limits_are_told():
    (dropout,) = list_settings("model.dropout")
    assert dropout.type == "number ≥ 0, < 1"
    (clip,) = list_settings("optimizer.clip_norm")
    assert clip.type == "number > 0 or null"


def test_a_section_and_an_unknown_name():
    assert {setting.name.partition(".")[0] for setting in list_settings("loss")} == {"loss"}
    with pytest.raises(InputError, match=r"did you mean 'model.n_regions'\?"):
        list_settings("model.n_region")


def test_the_command_lists_all_or_one(tmp_path):
    shown = CliRunner().invoke(command, ["--json", str(tmp_path / "all.json")], catch_exceptions=False).output
    assert all(name in shown for name in list_keys())
    assert len(json.loads((tmp_path / "all.json").read_text())) == len(list_keys())
    one = CliRunner().invoke(command, ["model.n_regions"], catch_exceptions=False).output
    assert "in pileup-10k" in one
    assert "whole number ≥ 1" in one


def test_describe_uses_the_same_texts():
    shown = CliRunner().invoke(describe, ["tracking-demo", "--points", "100"], catch_exceptions=False).output
    (setting,) = list_settings("model.n_regions")
    assert f"model.n_regions = 30: {setting.meaning}" in shown
