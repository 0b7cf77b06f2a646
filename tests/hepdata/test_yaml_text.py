"""YAML of strangers, wherever it is read: bounded, or refused in one line."""

import os

import pytest

from hepdata.errors import InputError
from hepdata.features.layers import parse_layers
from hepdata.readers.delphes_branches import read_map
from hepdata.readers.table_description import read_description

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
READERS = {"layers": lambda path: parse_layers(str(path)), "branches": read_map, "table": read_description}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 5000 + "]" * 5000, "nested deeper than 20 levels"),
        (LAUGHS, "more than 10,000 values, with aliases expanded"),
        ("a: &a [*a, *a]", "more than 10,000 values|nested deeper"),
        ("a: !!float ''", "IndexError|index|could not convert"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("a: \x1b[2J", "special characters are not allowed"),
        ("#" * 1_000_001, "more than 1,000,000 characters"),
    ],
    ids=["deep", "laughs", "itself", "float", "python", "escape", "large"],
)
def test_yaml_that_explodes_is_one_line(tmp_path, read, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"mine.yaml: found .*({message})") as caught:
        read(path)
    assert len(str(caught.value).splitlines()) == 1
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_pipe_is_refused_at_once(tmp_path, read):
    os.mkfifo(tmp_path / "mine.yaml")
    with pytest.raises(InputError, match="a pipe, a device or a folder"):
        read(tmp_path / "mine.yaml")
