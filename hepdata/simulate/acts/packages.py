"""The two optional packages of realistic simulation."""

from __future__ import annotations

from types import ModuleType

from hepdata.errors import missing_extra


def import_acts() -> ModuleType:
    """`acts` with `acts.examples`, its messages off.

    Raises:
        InputError: `pyacts` is not installed.
    """
    try:
        import acts
        import acts.examples
    except ImportError as error:
        raise missing_extra("acts", "acts") from error
    acts.logging.setFailureThreshold(acts.logging.FATAL)
    module: ModuleType = acts
    return module


def import_pythia() -> ModuleType:
    """`pythia8mc`.

    Raises:
        InputError: It is not installed.
    """
    try:
        import pythia8mc
    except ImportError as error:
        raise missing_extra("pythia8mc", "acts") from error
    module: ModuleType = pythia8mc
    return module
