"""Who is told of progress: nobody in scripts, a bar where somebody looks."""

import sys

import pytest

import hepdata
from hepdata.progress import Silent, listen
from hepdata.progress_bar import ProgressBar


@pytest.mark.parametrize(
    ("choice", "prompt", "kind"),
    [
        (None, False, Silent),
        (None, True, ProgressBar),
        (False, True, Silent),
        (True, False, ProgressBar),
    ],
)
def test_a_choice_gives_a_listener(monkeypatch, choice, prompt, kind):
    monkeypatch.delattr(sys, "ps1", raising=False)
    if prompt:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with listen(choice) as listener:
        assert type(listener) is kind


def test_a_listener_is_used_as_it_is(tmp_path):
    told = []

    class Recorder(Silent):
        def start(self, description, total, unit, *, done=0):
            told.append((description, total, unit))

    hepdata.simulate_tracking(tmp_path, events=2, hits_per_event=100, progress=Recorder())
    assert told == [("simulate", 2, "event")]


def test_without_a_terminal_lines_are_written(tmp_path, capsys):
    hepdata.simulate_tracking(tmp_path / "a", events=2, hits_per_event=100, progress=True)
    assert "simulate: 2/2" in capsys.readouterr().err
    hepdata.simulate_tracking(tmp_path / "b", events=2, hits_per_event=100, progress=False)
    assert capsys.readouterr().err == ""
