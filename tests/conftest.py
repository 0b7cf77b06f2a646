"""Fixtures for all tests: the real files, where they lie beside the checkout."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pandas as pd

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real events and expected numbers, which not every machine has."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder of real events beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def trackml_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six simulated TrackML events of about 300 hits, 1000 to 1005, and detectors.csv; not to be changed."""
    from hepdata.simulate.trackml_files import simulate_files

    folder = tmp_path_factory.mktemp("trackml")
    simulate_files(folder, n_events=6, hits_per_event=300, seed=5)
    return folder


@pytest.fixture
def trackml_copy(trackml_events: Path, tmp_path: Path) -> Path:
    """The same events to be damaged."""
    return Path(shutil.copytree(trackml_events, tmp_path / "raw"))


@pytest.fixture
def edit_csv() -> Callable[[Path, Callable[[pd.DataFrame], pd.DataFrame]], None]:
    """Rewrite a CSV file through pandas: `edit_csv(path, change)`."""
    import pandas as pd

    def edit(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        change(pd.read_csv(path)).to_csv(path, index=False)

    return edit
