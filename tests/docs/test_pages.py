"""Every code block of the documentation runs, and every link between its files leads somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from run_page import REASONS, find_blocks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = [
    page
    for page in PAGES
    if any(b.reason is None and b.language in ("bash", "python") for b in find_blocks(page.read_text()))
]
LANGUAGES = {"bash", "python", "yaml", "text", "bibtex", "cpp", "json", "console", "slurm", "condor"}


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page, tmp_path):
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MPLBACKEND": "agg",
        "HEPT_THREADS": "1",
    }
    script = Path(__file__).with_name("run_page.py")
    done = subprocess.run(
        [sys.executable, str(script), str(page)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_have_a_language_and_blocks_that_do_not_run_say_why(page):
    for block in find_blocks(page.read_text()):
        where = f"{page.name}:{block.line}"
        assert block.language in LANGUAGES or block.language == "", f"{where}: {block.language}"
        assert block.language or block.reason or block.text.startswith("{"), f"{where}: no language"
        if block.reason is not None:
            assert block.reason.startswith(REASONS), f"{where}: {block.reason}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            generated = target in ("settings.md",) or target.startswith("_generated/")
            assert generated or (page.parent / target).exists(), f"{page.name}: {target}"
