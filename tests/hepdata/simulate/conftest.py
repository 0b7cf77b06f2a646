"""One detector and two events, made once: tests only read them."""

import pytest

from hepdata.simulate.detector import Detector, build_detector
from hepdata.simulate.tracking import SimulatedEvent, simulate_event


@pytest.fixture(scope="session")
def detector() -> Detector:
    return build_detector()


@pytest.fixture(scope="session")
def event(detector) -> SimulatedEvent:
    return simulate_event(1000, 6000, 3, detector)


@pytest.fixture(scope="session")
def large_event(detector) -> SimulatedEvent:
    return simulate_event(1001, 60_000, 3, detector)
