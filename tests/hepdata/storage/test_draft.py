import subprocess
import sys

import pytest

from hepdata.errors import InputError
from hepdata.storage.draft import draft_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from hepdata.storage.draft import draft_folder
with draft_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", KILLED, str(out)], check=False)
    assert done.returncode == -9
    assert ".out.hept-draft" in names_in(tmp_path)
    with draft_folder(out) as folder:
        assert names_in(folder) == []
        (folder / "whole").write_text("whole")
        folder.rename(out)
    assert (names_in(tmp_path), names_in(out)) == (["out"], ["whole"])


def test_an_error_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), draft_folder(tmp_path / "out") as folder:
        (folder / "half").write_text(str(1 / 0))
    assert names_in(tmp_path) == []


def test_one_output_has_one_writer(tmp_path):
    with (
        draft_folder(tmp_path / "out"),
        pytest.raises(InputError, match="out: found another process that is writing it"),
        draft_folder(tmp_path / "out"),
    ):
        pass
