"""`hept-data publish`: a dataset for other people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.commands import publish

from .command_line import json_option, write_json
from .printing import console
from .written_dataset import describe_written, print_written


@click.command("publish", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("dataset", metavar="DATASET")
@click.option("--to", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="New folder.")
@click.option("--title", help="Title of the card.  [default: the task]")
@click.option("--description", help="A few sentences.  [default: the counts]")
@click.option(
    "--license",
    default="unknown",
    show_default=True,
    metavar="SPDX",
    help="SPDX identifier of the licence, such as CC-BY-4.0.",
)
@click.option(
    "--author", "authors", multiple=True, metavar="NAME", help="Person or collaboration; may be repeated."
)
@click.option("--url", help="Where the dataset will be found.  [default: the address of --push]")
@click.option(
    "--events", type=click.IntRange(0), default=1, show_default=True, help="Events to draw on the card."
)
@click.option("--push", metavar="hf://USER/NAME", help="Upload the folder to Hugging Face, in one commit.")
@click.option("--private", is_flag=True, help="Make the repository of --push private if it is new.")
@json_option
def command(dataset: str, to: Path, json_path: Path | None, **arguments: Any) -> None:
    """Lay DATASET out in the new FOLDER for Hugging Face, Zenodo or any web server.

    Writes the data files, a data card (README.md), Croissant metadata, CITATION.cff, pictures and SHA256SUMS.
    HDF5 is converted to Parquet. With --push the same command, run again after a failure, uploads the rest.

    \b
    Example:
      hept-data publish tracking --to shared --license CC-BY-4.0 --author "A. Physicist"
    """
    made = publish(dataset, to, **arguments, progress=True)
    print_written(f"{made.about.title}, published in {to}", made.manifest)
    if made.about.license == "unknown":
        console.print("The card states no licence; name one with --license, or others cannot use the data.")
    if made.commit:
        console.print(f"Uploaded: {made.commit}", markup=False, highlight=False, soft_wrap=True)
    names = [path.relative_to(made.out).as_posix() for path in made.files]
    write_json(
        json_path,
        {**describe_written(str(to), made.manifest), "published_files": names, "commit": made.commit},
    )
