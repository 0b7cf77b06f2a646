"""Builds of the simulated events, and the checksums that must come out of all of them."""

from pathlib import Path

import pytest

from hepdata.pipeline.build import BuildSummary, build_dataset
from hepdata.pipeline.pileup_source import PileupSource, with_changes
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, TrackingSource, open_tracking
from hepdata.storage.dataset.manifest import Manifest


@pytest.fixture
def tracking_source(trackml_events: Path) -> TrackingSource:
    """The six simulated events with the published settings."""
    return open_tracking(trackml_events, TRACKING_PRESETS["tracking-60k"])


@pytest.fixture(scope="session")
def undisturbed(trackml_events: Path, tmp_path_factory: pytest.TempPathFactory) -> BuildSummary:
    """One build in one process that nobody disturbed."""
    source = open_tracking(trackml_events, TRACKING_PRESETS["tracking-60k"])
    return build_dataset(source, tmp_path_factory.mktemp("undisturbed") / "dataset")


@pytest.fixture
def same_bytes(undisturbed: BuildSummary):
    """Checks that a dataset has the files of the undisturbed build, and nothing else around it."""

    def check(out: Path) -> None:
        ours, expected = Manifest.read(out), Manifest.read(undisturbed.out)
        assert ours == expected
        assert sorted(path.name for path in out.iterdir()) == sorted(
            path.name for path in undisturbed.out.iterdir()
        )
        for path in out.iterdir():
            assert path.read_bytes() == (undisturbed.out / path.name).read_bytes(), path.name
        left = [path.name for path in out.parent.iterdir() if path.name not in (out.name, "raw")]
        assert left == []

    return check


class Listener:
    """Hears what a build says of itself, and may stop it."""

    def __init__(self, stop_after=None):
        self.total, self.done, self.is_finished, self.stop_after = None, 0, False, stop_after

    def start(self, description, total, unit, *, done=0):
        self.total = total

    def advance(self, steps=1, note=""):
        self.done += steps
        if self.stop_after is not None and self.done >= self.stop_after:
            raise KeyboardInterrupt

    def finish(self):
        self.is_finished = True


@pytest.fixture(scope="session")
def open_sample():
    """Opens Delphes files with the default settings and some changes."""

    def open_files(*files, **changes):
        return PileupSource.open([str(file) for file in files], with_changes("pileup-10k", **changes))

    return open_files


@pytest.fixture(scope="session")
def clouds_of():
    """What every event of a source gives."""
    return lambda source: [answer for _, answer in source.read_clouds(source.list_events())]


@pytest.fixture
def listen():
    """Makes listeners."""
    return Listener
