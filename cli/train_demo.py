"""`hept-train demo`: the whole workflow on simulated events, by the commands that a user would type."""

from __future__ import annotations

import shlex
import shutil
import time
from pathlib import Path

import click

from hepdata.errors import InputError

from . import data, train
from .command_line import LazyGroup, device_option, json_option, threads_option, write_json
from .printing import console, print_table

_MARK = ".hept-demo"
# One headline figure per task, as in the paper.
_HEADLINE = {
    "tracking": ("AP@k, hits of particles with pT > 0.9 GeV", "ap@0.9"),
    "pileup": ("average precision (AUC in the paper)", "auc"),
}


@click.command("demo")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False), default=Path("demo"))
@click.option("--events", default=60, show_default=True, type=click.IntRange(20), help="Events of each kind.")
@click.option("--epochs", type=click.IntRange(1), help="Training epochs.  [default: the demo presets']")
@click.option("--seed", default=1, show_default=True, help="Seed of the simulated events.")
@device_option
@threads_option
@json_option
def command(
    out: Path,
    events: int,
    epochs: int | None,
    seed: int,
    device: str,
    threads: int | None,
    json_path: Path | None,
) -> None:
    """Simulate, build, train, evaluate and draw, all into the folder OUT.

    Shows each command before it runs; replaces an earlier demo in OUT.

    \b
    Example:
      hept-train demo demo
    """
    begun = time.perf_counter()
    _clear(out)
    settings = f" --set epochs={epochs}" if epochs else ""
    settings += f" --device {device}" if device != "auto" else ""
    settings += f" --threads {threads}" if threads else ""
    sample = f"--events {events} --seed {seed}"
    folder = shlex.quote(str(out))
    for line in (
        f"hept-data simulate tracking {folder}/raw/tracking {sample} --hits-per-event 1500",
        f"hept-data build tracking {folder}/raw/tracking {folder}/tracking --workers 2",
        f"hept-data info {folder}/tracking",
        f"hept-data simulate pileup {folder}/raw/pileup.root {sample} --pileup 10",
        f"hept-data build pileup {folder}/raw/pileup.root {folder}/pileup --workers 2",
        f"hept-data info {folder}/pileup",
        f"hept-train fit {folder}/tracking --preset tracking-demo --out {folder}/runs/tracking{settings}",
        f"hept-train fit {folder}/pileup --preset pileup-demo --out {folder}/runs/pileup{settings}",
    ):
        _run(line)
    # Imported here, since torch takes seconds.
    from hept.devices.threads import choose_threads, use_threads

    with use_threads(choose_threads(threads)):
        _show(out, device, json_path, begun)


def _clear(out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise InputError(
                out,
                found="a folder with other files",
                expected="a new folder, or the folder of an earlier demo",
                remedy="choose another folder",
            )
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()


def _run(line: str) -> None:
    console.print(f"\n[bold cyan]$ {line}[/]", highlight=False, soft_wrap=True)
    program, *arguments = shlex.split(line)
    groups: dict[str, LazyGroup] = {"hept-data": data.group, "hept-train": train.group}
    groups[program].main(arguments, prog_name=program, standalone_mode=False)


def _show(out: Path, device: str, json_path: Path | None, begun: float) -> None:
    from hepdata import open_dataset
    from hept.model.weights import load_model
    from hept.report.results import collect_results

    from .demo_pictures import draw_demo

    rows: list[tuple[str, str, float, float]] = []
    paths: list[Path] = []
    for task, (label, key) in _HEADLINE.items():
        dataset, run = open_dataset(out / task), out / "runs" / task
        results = collect_results(load_model(run).on(device), run, dataset, "test", n_events=1)
        rows.append((task, label, results.before.metrics[key], results.after.metrics[key]))
        paths += draw_demo(out / "pictures", dataset, results, run)
    console.print()
    print_table(
        "Before and after training, on events the model has not seen",
        ("task", "measure", "untrained", "trained"),
        [(task, label, f"{before:.3f}", f"{after:.3f}") for task, label, before, after in rows],
    )
    console.print(f"{len(paths)} pictures in {out / 'pictures'}:", highlight=False, soft_wrap=True)
    for path in paths:
        console.print(f"  {path.name}", highlight=False, soft_wrap=True)
    reports = [out / "runs" / task / "report.html" for task in _HEADLINE]
    console.print("Reports of both runs:", highlight=False)
    for path in reports:
        console.print(f"  {path}", highlight=False, soft_wrap=True)
    seconds = time.perf_counter() - begun
    console.print(f"The demo took {seconds:.0f} s.", highlight=False)
    gained = {
        task: {"measure": _HEADLINE[task][1], "untrained": before, "trained": after}
        for task, _, before, after in rows
    }
    write_json(json_path, {"seconds": seconds, "pictures": paths, "reports": reports, **gained})
