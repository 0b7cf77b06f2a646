"""`hept-data`: raw events to datasets, and everything one does with a dataset."""

from __future__ import annotations

from typing import NoReturn

from .command_line import LazyGroup, run

# name: (module, one line of help), in the order in which a user meets them
COMMANDS: dict[str, tuple[str, str]] = {
    "simulate": (".data_simulate", "Simulate raw events of either kind."),
    "build": (".data_build", "Build a dataset from raw events."),
    "inspect": (".data_inspect", "Show what a Delphes file has and which preset fits."),
    "import": (".data_import", "Turn published torch_geometric files into a dataset."),
    "info": (".data_info", "Show what a dataset holds."),
    "validate": (".data_validate", "Check every byte and every cloud of a dataset."),
    "convert": (".data_convert", "Write a dataset in the other format."),
    "export": (".data_export", "Write a split as a padded HDF5 file."),
    "merge": (".data_merge", "Put datasets that were built apart into one."),
    "plot": (".data_plot", "Draw a dataset: distributions and events."),
    "view": (".data_view", "Events on an interactive page."),
    "publish": (".data_publish", "Lay out a dataset for Hugging Face, Zenodo or a web server."),
}

group = LazyGroup(
    name="hept-data",
    help="Turn raw TrackML and Delphes events into η–φ point-cloud datasets.\n\n"
    "\b\nExample:\n  hept-data simulate tracking raw --events 20 --hits-per-event 2000",
    commands_at=COMMANDS,
)


def main() -> NoReturn:
    """Run `hept-data`."""
    run(group)
