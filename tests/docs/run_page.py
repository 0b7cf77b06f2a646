"""Run every code block of a Markdown page, in order, in the current folder: `python run_page.py PAGE.md`.

`bash` blocks run by bash, `python` blocks in one namespace; a block whose first line is a comment that is a file
name, such as `# map.yaml`, is written to this file. `<!-- not run: REASON -->` above a block leaves it out.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REASONS = ("needs a GPU", "needs a cluster", "needs a network", "takes long", "not a command")
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]*) -->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S
)
FILE_NAME = re.compile(r"# ([\w./-]+\.(?:py|ya?ml|csv|sub|sh))\n")


@dataclass
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    reason: str | None


def find_blocks(page: str) -> list[Block]:
    """All fenced blocks of a page."""
    return [
        Block(found["language"], found["text"], page.count("\n", 0, found.start("text")), found["why"])
        for found in BLOCK.finditer(page)
    ]


def run(path: Path) -> None:
    """Run a page's blocks; the first error ends it."""
    namespace = {"__name__": "__main__"}
    for block in find_blocks(path.read_text()):
        if block.reason is not None:
            continue
        print(  # noqa: T201
            f"--- {path.name}:{block.line} {block.language}", flush=True
        )
        if name := FILE_NAME.match(block.text):
            Path(name[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(name[1]).write_text(block.text)
        elif block.language == "bash":
            subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.text], check=True, stdin=subprocess.DEVNULL
            )
        elif block.language == "python":
            exec(compile(block.text, f"{path.name}:{block.line}", "exec"), namespace)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
