"""`hept-data validate`: check every byte and every cloud of a dataset."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from hepdata.commands import validate
from hepdata.errors import JobError

from .command_line import json_option, write_json
from .printing import print_lines

MAX_SHOWN = 50


@click.command("validate")
@click.argument("dataset", metavar="DATASET")
@json_option
def command(dataset: str, json_path: Path | None) -> None:
    """Check DATASET: checksums, schema, ids, labels, pair lists, NaN, ranges, splits, duplicates.

    Prints every finding with its shard, event and remedy; exits with 1 if there are any.

    \b
    Example:
      hept-data validate tracking
    """
    findings = validate(dataset, progress=True)
    write_json(json_path, [asdict(finding) for finding in findings])
    for finding in findings[:MAX_SHOWN]:
        print_lines(str(finding))
    if len(findings) > MAX_SHOWN:
        click.echo(f"… and {len(findings) - MAX_SHOWN} more; --json FILE writes all")
    if findings:
        raise JobError(
            dataset,
            found=f"{len(findings)} problem{'s' if len(findings) > 1 else ''}",
            expected="none",
            remedy="see the lines above",
        )
    click.echo(f"{dataset}: all well")
