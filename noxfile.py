#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""The targets of the Makefile for users of nox: `nox -s tests` makes its own environment.

`make test` is the way that is tested on every change; sessions call the same commands.
"""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
PYTHONS = ["3.11", "3.12", "3.13"]


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types and directions of imports."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy", "hepdata", "hept", "cli")
    session.run("lint-imports")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The test suite; arguments after `--` go to pytest."""
    session.install("-e", ".[dev]")
    session.run("pytest", *(session.posargs or ["-n", "auto"]), env={"OMP_NUM_THREADS": "1"})


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation site, with warnings as errors, in docs/_build/html."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


if __name__ == "__main__":
    nox.main()
