"""What was tried and what survived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.child import Outcome


@dataclass
class Tally:
    """One row of the table.

    Attributes:
        fault: What was done.
        target: To what.
        tried: How often.
        survived: How often nothing was lost and nothing but one line was said.
        refused: How often that one line was said.
        failures: What happened to the others.
    """

    fault: str
    target: str
    tried: int = 0
    survived: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, what: str, outcome: Outcome, problem: str = "") -> None:
        """Count one try; `problem` says what is wrong although it ended well."""
        self.tried += 1
        self.refused += outcome.ending == "refused"
        if outcome.is_orderly and not problem:
            self.survived += 1
        else:
            self.failures.append(f"{what}: {outcome.ending} {problem} {outcome.text[-2000:]}")


# Tries a kind of fault in a folder, as large a share of the tries as asked for.
Kind = Callable[[Path, float], Iterator[Tally]]


def spread(n_tries: int, share: float) -> Iterator[int]:
    """A share of the numbers 0 … n_tries - 1, at least one."""
    stride = max(round(1 / share), 1)
    return iter(range(0, n_tries, stride))
