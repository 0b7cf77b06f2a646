"""All checks in order, each a line as soon as it is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from hepdata.progress import Progress
from hept.devices.out_of_memory import memory_errors
from hept.diagnosis.environment import describe_device, describe_software
from hept.diagnosis.kernels import check_kernels
from hept.diagnosis.speed import SIZES, measure_loader, measure_speed
from hept.diagnosis.steps import check_steps
from hept.diagnosis.two_processes import check_two_processes
from hept.diagnosis.verdict import Verdict, judge


@dataclass(frozen=True)
class Diagnosis:
    """What `hept.doctor` found.

    Attributes:
        device: On which.
        verdicts: One per check.
    """

    device: str
    verdicts: tuple[Verdict, ...]

    @property
    def is_well(self) -> bool:
        """Whether no check failed."""
        return all(verdict.status != "wrong" for verdict in self.verdicts)

    def as_dict(self) -> dict[str, object]:
        """For a JSON file."""
        return {
            "device": self.device,
            "is_well": self.is_well,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
        }


def examine(device: torch.device, *, is_full: bool, progress: Progress) -> Diagnosis:
    """Run all checks.

    Args:
        device: Where to compute.
        is_full: All sizes on a CPU too.
        progress: Told each verdict as it comes.
    """
    # cuBLAS reads this variable before its first product; deterministic ones need it.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    sizes = SIZES if is_full or device.type != "cpu" else SIZES[:1]
    verdicts = []
    with TemporaryDirectory(prefix="hept-doctor-") as folder:
        checks = _list_checks(device, sizes, Path(folder))
        progress.start("examining", len(checks), "check")
        for name, check in checks.items():
            for verdict in _survive(name, check):
                verdicts.append(verdict)
                progress.advance(0, verdict.name)
            progress.advance(1)
        progress.finish()
    return Diagnosis(str(device), tuple(verdicts))


def _list_checks(
    device: torch.device, sizes: Iterable[int], folder: Path
) -> dict[str, Callable[[], Iterable[Verdict]]]:
    checks: dict[str, Callable[[], Iterable[Verdict]]] = {
        "versions": lambda: [describe_software()],
        "device": lambda: [describe_device(device)],
        "kernels": lambda: check_kernels(device),
        "training steps": lambda: check_steps(device),
        "two processes": lambda: [check_two_processes(folder, device)],
    }
    for n in sizes:
        # On a CPU, the authors' procedure takes a minute for a step at 60,000 points.
        repeats = 9 if device.type != "cpu" else 3 if n == SIZES[0] else 1
        checks[f"speed, {n:,} points"] = partial(measure_speed, device, n, repeats=repeats)
        checks[f"loader, {n:,} points"] = partial(measure_loader, folder, n)
    return checks


def _survive(name: str, check: Callable[[], Iterable[Verdict]]) -> Iterator[Verdict]:
    """The verdicts of a check; if it raises, that is a verdict too, so that the other checks still run."""
    try:
        with memory_errors(name, remedy="close other programs that use the device"):
            yield from check()
    except Exception as error:
        yield judge(name, False, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
