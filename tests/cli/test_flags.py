"""Messages of the library name parameters; on the command line they name options."""

import ast
import re
from pathlib import Path

import click
import pytest

import hepdata
import hept
from hept_cli.flags import name_flags


@click.command()
@click.argument("dataset")
@click.option("--format", "file_format")
@click.option("--noise/--no-noise", default=None)
@click.option("--no-cells", "cell_features", flag_value=False, default=True)
@click.option("--engine")
@click.option("--overwrite", is_flag=True)
def command(**_):
    pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("choose another `file_format`", "choose another --format"),
        ("give `engine='dask'` here", "give --engine dask here"),
        ("give `overwrite=True`, or not", "give --overwrite, or not"),
        ("leave `noise=False` out", "leave --no-noise out"),
        ("give `cell_features=False`", "give --no-cells"),
        ("name it as `dataset`", "name it as DATASET"),
        ("`on_error='skip'` of another command", "--on-error skip of another command"),
        ("settings as `key: value`", "settings as `key: value`"),
        ("run `hept-train fit`", "run `hept-train fit`"),
    ],
)
def test_parameters_become_options(text, expected):
    assert name_flags(text, command) == expected


def test_an_error_keeps_its_kind_and_parts():
    error = hepdata.InputError("`engine`", found="2", expected="1", remedy="change `engine`")
    again = error.reworded(lambda text: name_flags(text, command))
    assert type(again) is hepdata.InputError
    assert str(again) == "--engine: found 2; expected 1; change --engine"


def test_the_library_names_no_flags():
    """Users of the functions have none; `pip install --upgrade` is no command of ours."""
    named = []
    for package in (hepdata, hept):
        for path in Path(package.__file__).parent.rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            named += [
                (path.name, text)
                for text in texts
                if isinstance(text, str)
                and re.search(r"(?<![\w-])--[a-z]", text)
                and "pip install" not in text
            ]
    assert named == []
