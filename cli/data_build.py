"""`hept-data build`: raw events to datasets."""

from __future__ import annotations

from .command_line import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "tracking": (
        ".data_build_tracking",
        "TrackML or ColliderML events to hits with features, labels and pairs.",
    ),
    "table": (
        ".data_build_table",
        "Any table of points (Parquet, CSV, ROOT, HDF5) to clouds.",
    ),
    "pileup": (".data_build_pileup", "Delphes events to particle-flow points with labels."),
}

command = LazyGroup(
    name="build",
    help="Build a dataset of η–φ point clouds from raw events.\n\n"
    "\b\nExample:\n  hept-data build tracking raw tracking --workers 2",
    commands_at=COMMANDS,
)
