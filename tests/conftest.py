"""Fixtures for all tests: the real files, where they lie beside the checkout."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real events and expected numbers, which not every machine has."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder of real events beside the checkout")
    return SHARED
