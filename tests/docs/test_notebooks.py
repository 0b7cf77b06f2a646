"""The notebooks in `examples/` run from top to bottom, and what is stored in them is small and whole."""

import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
MOST_BYTES = 300_000


def test_there_are_five():
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_whole_and_small(path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < MOST_BYTES
    assert book["cells"][0]["cell_type"] == "markdown"
    assert "".join(book["cells"][0]["source"]).startswith("# ")
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not re.search(r"/(?:home|root|tmp)/", json.dumps(outputs))


@pytest.mark.pages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="needs pip install nbclient ipykernel")
    pytest.importorskip("ipykernel", reason="needs pip install nbclient ipykernel")
    import nbformat

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HEPT_THREADS", "1")
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        book, timeout=1200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
