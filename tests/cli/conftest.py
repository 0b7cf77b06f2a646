"""Commands in the process of the test: starting a process for each would take most of the time."""

import sys
from collections.abc import Callable

import pytest

from hept_cli.data import main


@pytest.fixture
def hept_data(monkeypatch, capsys, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """Run `hept-data …` in a folder of its own; gives (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hept-data", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        text = capsys.readouterr()
        return stop.value.code, text.out, text.err

    return run
