"""Settings of Sphinx; `make docs` builds the site, offline and with warnings as errors."""

from __future__ import annotations

import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from settings_page import write_settings_page

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Help texts of the command reference do not depend on the terminal that builds them.
os.environ["COLUMNS"] = "100"

project = "HEPT"
author = "The HEPT developers"
release = metadata.version("hept")
html_theme = "furo"
html_title = f"HEPT {release}"
html_show_copyright = False
html_static_path: list[str] = []
templates_path: list[str] = []
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}
smartquotes = False  # they make one dash of two in options

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_use_ivar = True


def quote_examples(_app: Sphinx, _context: object, lines: list[str]) -> None:
    """Show the examples of help texts, which are indented, as code."""
    lines[:] = [re.sub(r"^(\|\s{2,})(.+)$", r"\1``\2``", line) for line in lines]


def setup(app: Sphinx) -> None:
    """Write the pages that are made from the code before Sphinx reads them."""
    app.connect("sphinx-click-process-description", quote_examples)
    app.connect("builder-inited", lambda app: write_settings_page(Path(app.srcdir) / "settings.md"))
