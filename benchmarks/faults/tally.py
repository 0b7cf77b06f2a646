"""What was tried and what survived."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.faults.child import Outcome


@dataclass
class Tally:
    """One row of the table.

    Attributes:
        name: Kind of fault.
        tried: How often.
        survived: How often nothing was lost and nothing but one line was said.
        refused: How often that one line was said.
        failures: What happened to the others.
    """

    name: str
    tried: int = 0
    survived: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, what: str, outcome: Outcome, problem: str = "") -> None:
        """Count one try; `problem` says what is wrong although it ended well."""
        self.tried += 1
        self.refused += outcome.ending == "refused"
        if outcome.ending in ("done", "refused") and not problem:
            self.survived += 1
        else:
            self.failures.append(f"{what}: {outcome.ending} {problem} {outcome.text[-2000:]}")
