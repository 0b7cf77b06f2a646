"""YAML from users: text enters, plain values of bounded size leave."""

from __future__ import annotations

from pathlib import Path

import yaml

MAX_CHARACTERS = 1_000_000
# Far above real settings: a few dozen values in three levels.
MAX_VALUES = 10_000
MAX_DEPTH = 20


def read_yaml(path: Path) -> object:
    """The values in a YAML file.

    Raises:
        OSError: It is missing or cannot be read.
        ValueError: Not a file, not text, not YAML, or too large or too deep.
    """
    if path.exists() and not path.is_file():
        raise ValueError("a pipe, a device or a folder")
    with path.open(encoding="utf-8") as file:
        return parse_yaml(file.read(MAX_CHARACTERS + 1))


def parse_yaml(text: str) -> object:
    """The values in a YAML text.

    Raises:
        ValueError: Not YAML, or too large or too deep, with aliases expanded.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"more than {MAX_CHARACTERS:,} characters")
    try:
        content: object = yaml.safe_load(text)
    except RecursionError:
        raise ValueError(f"values nested deeper than {MAX_DEPTH} levels") from None
    except Exception as error:
        # Besides YAMLError, PyYAML's constructors raise whatever int() and other conversions raise.
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error
    _check_size(content)
    return content


def _check_size(content: object) -> None:
    n_values, level = 0, [content]
    for _ in range(MAX_DEPTH + 1):
        below: list[object] = []
        for value in level:
            inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value
            below += inner if isinstance(inner, list | tuple | set) else []
            if n_values + len(below) > MAX_VALUES:
                raise ValueError(f"more than {MAX_VALUES:,} values, with aliases expanded")
        if not below:
            return
        n_values, level = n_values + len(below), below
    raise ValueError(f"values nested deeper than {MAX_DEPTH} levels")
