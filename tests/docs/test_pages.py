"""Every code block of the documentation runs, and every link between its files leads somewhere.

`bash` blocks run by bash, `python` blocks in one namespace; a block whose first line is a comment that is a
file name, such as `# map.yaml`, is written to this file. `<!-- not run: REASON -->` above a block leaves it
out, `<!-- runs with: PACKAGE -->` only where the package is missing. Four pages run with fewer events or a
smaller model than they print (`SMALLER`). By hand, in an empty folder: `python .../tests/docs/test_pages.py
PAGE.md`.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

REASONS = ("needs a GPU", "needs a cluster", "needs a network", "takes long", "not a command")
BLOCK = re.compile(
    r"(?:<!-- (?:not run: (?P<why>[^>]*)|runs with: (?P<package>\w+)) -->\n+)?"
    r"^```(?P<language>[\w{}-]*)[^\n]*\n(?P<text>.*?)^```$",
    re.M | re.S,
)
FILE_NAME = re.compile(r"# ([\w./-]+\.(?:py|ya?ml|csv|sub|sh))\n")
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# What a page prints, and what its test runs instead, to be done sooner. Of a model that is exported, each
# head, table and layer takes time.
SMALL = "--set model.n_layers=1 --set model.n_heads=2 --set model.n_tables=2"
SMALLER = {
    "export": ("epochs=1", f"epochs=1 {SMALL}"),
    "pileup": ("--events 24 --pileup 10", "--events 12 --pileup 5"),
    "quickstart": ("--events 24 --hits-per-event 800", "--events 12 --hits-per-event 300"),
    "tracking": ("--events 20 --hits-per-event 1000", "--events 12 --hits-per-event 400"),
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(EXAMPLES.rglob("README.md"))]
LANGUAGES = {"bash", "python", "yaml", "text", "bibtex", "cpp", "json", "console", "slurm", "condor"}


@dataclass
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    reason: str | None
    package: str | None = None

    @property
    def runs(self) -> bool:
        return self.reason is None and (self.package is None or find_spec(self.package) is not None)


def find_blocks(page: str) -> list[Block]:
    """All fenced blocks of a page."""
    return [
        Block(
            found["language"],
            found["text"],
            page.count("\n", 0, found.start("text")),
            found["why"],
            found["package"],
        )
        for found in BLOCK.finditer(page)
    ]


def run(path: Path) -> None:
    """Run a page's blocks; the first error ends it."""
    namespace = {"__name__": "__main__"}
    printed, run_instead = SMALLER.get(path.stem, ("", ""))
    for block in find_blocks(path.read_text()):
        if not block.runs:
            continue
        print(  # noqa: T201
            f"--- {path.name}:{block.line} {block.language}", flush=True
        )
        if name := FILE_NAME.match(block.text):
            Path(name[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(name[1]).write_text(block.text)
        elif block.language == "bash":
            text = block.text.replace(printed, run_instead)
            subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True, stdin=subprocess.DEVNULL)
        elif block.language == "python":
            exec(compile(block.text, f"{path.name}:{block.line}", "exec"), namespace)


RUN = [
    page
    for page in PAGES
    if any(b.reason is None and b.language in ("bash", "python") for b in find_blocks(page.read_text()))
]


def name_page(page: Path) -> str:
    return page.parent.name if EXAMPLES in page.parents else page.stem


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page == PAGES[0] else pytest.mark.pages) for page in RUN],
    ids=name_page,
)
def test_every_block_of_a_page_runs(page, tmp_path):
    if EXAMPLES in page.parents:
        # Its commands are for its own folder.
        shutil.copytree(page.parent, tmp_path, dirs_exist_ok=True)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MPLBACKEND": "agg",
        "HEPT_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, __file__, str(page)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_blocks_have_a_language_and_blocks_that_do_not_run_say_why(page):
    for block in find_blocks(page.read_text()):
        where = f"{page.name}:{block.line}"
        known = block.language in LANGUAGES or block.language.startswith("{")
        assert known, f"{where}: {block.language or 'no language'}"
        if elsewhere := re.fullmatch(r"(tests/\S+) runs it", block.reason or ""):
            assert (ROOT / elsewhere[1]).exists(), f"{where}: {block.reason}"
        elif block.reason is not None:
            assert block.reason.startswith(REASONS), f"{where}: {block.reason}"


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_no_command_hides_in_an_indented_block(page):
    prose = BLOCK.sub("", page.read_text())
    assert not re.findall(r"\n\n {4}(?:hept-|make|python|pip|g\+\+)[^\n]*", prose)


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_between_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            generated = target in ("settings.md",) or target.startswith("_generated/")
            assert generated or (page.parent / target).exists(), f"{page.name}: {target}"


if __name__ == "__main__":
    run(Path(sys.argv[1]))
