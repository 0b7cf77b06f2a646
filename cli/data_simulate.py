"""`hept-data simulate`: simulated raw events, to work without a download."""

from __future__ import annotations

from .command_line import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "tracking": (".data_simulate_tracking", "TrackML files: hits, cells, particles, truth, detectors."),
    "pileup": (".data_simulate_pileup", "A Delphes ROOT file with particle-flow points."),
}

command = LazyGroup(
    name="simulate",
    help="Simulate raw events to try everything without a download.\n\n"
    "\b\nExample:\n  hept-data simulate tracking raw --events 20 --hits-per-event 2000",
    commands_at=COMMANDS,
)
