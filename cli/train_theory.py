"""`hept-train theory`: the error of three kernel approximations against their operations."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hepdata.errors import InputError, JobError
from hepdata.progress_bar import ProgressBar

from .command_line import json_option, write_json
from .printing import console, print_table

if TYPE_CHECKING:
    from hept.paper.theory.experiment import ExperimentResult


@click.command(
    name="theory",
    epilog="\b\nExample:\n  hept-train theory theory/ --quick\n",
)
@click.argument("out", type=click.Path(file_okay=False, path_type=Path), default=Path("theory"))
@click.option("--quick", is_flag=True, help="A tenth of the points and a coarser search; takes seconds.")
@click.option("--points", type=click.IntRange(min=2), help="Points in the square [default: 30000].")
@click.option("--side", type=click.FloatRange(min=0, min_open=True), help="Side of the square [default: 10].")
@click.option("--neighbors", type=click.IntRange(min=1), help="Interacting neighbours [default: 64].")
@click.option("--draws", type=click.IntRange(min=1), help="Random draws of the best settings [default: 3].")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the points and the draws.")
@json_option
def command(
    out: Path,
    quick: bool,
    points: int | None,
    side: float | None,
    neighbors: int | None,
    draws: int | None,
    seed: int,
    json_path: Path | None,
) -> None:
    """Compare random Fourier features with OR-only and OR & AND E²LSH on a local kernel.

    Searches bucket widths, tables and functions for the least error at every budget of operations, draws the
    best ones, checks the lemmas behind the analysis, and writes theory.png and theory.csv to OUT.
    """
    from hepdata.pictures.canvas import save_figure
    from hept.paper.theory.checks import check_lemmas
    from hept.paper.theory.experiment import ExperimentConfig, run_experiment
    from hept.paper.theory.picture import draw_tradeoff, write_csv

    config = ExperimentConfig.quick() if quick else ExperimentConfig()
    config = dataclasses.replace(
        config,
        n_points=points or config.n_points,
        side=side or config.side,
        n_neighbors=neighbors or config.n_neighbors,
        n_draws=draws or config.n_draws,
        seed=seed,
    )
    if config.n_neighbors >= config.n_points:
        raise InputError(
            "--neighbors",
            found=f"{config.n_neighbors} neighbours among {config.n_points} points",
            expected="fewer neighbours than points",
            remedy="lower --neighbors or raise --points",
        )
    with ProgressBar() as progress:
        result = run_experiment(config, progress)
    checks = check_lemmas(seed)
    out.mkdir(parents=True, exist_ok=True)
    paths = [save_figure(draw_tradeoff(result), out / "theory.png"), write_csv(result, out / "theory.csv")]
    _print_best(result)
    print_table("Lemmas", ["claim", "found", "holds"], [(one.claim, one.found, one.holds) for one in checks])
    console.print(*(str(path) for path in paths), sep="\n", highlight=False)
    write_json(json_path, {"result": dataclasses.asdict(result), "checks": [vars(one) for one in checks]})
    failed = [one for one in checks if not one.holds]
    if failed:
        raise JobError(
            "lemmas",
            found=f"{len(failed)} that do not hold, first: {failed[0].claim} ({failed[0].found})",
            expected="agreement within four standard deviations",
            remedy="run again with another --seed; if it fails again, please report it",
        )


def _print_best(result: ExperimentResult) -> None:
    from hept.paper.theory.experiment import METHODS

    by_budget: dict[float, dict[str, str]] = {}
    for one in result.best:
        settings = (
            f"D={one.n_features}" if one.n_features else f"r={one.width} {one.n_tables}×{one.n_functions}"
        )
        by_budget.setdefault(one.budget or 0.0, {})[one.method] = f"{one.error:.2g} ({settings})"
    budgets = sorted(by_budget)[:: max(1, len(by_budget) // 12)]
    print_table(
        f"Least squared error, n = {result.config.n_points:,}, {result.n_searched:,} settings searched; "
        f"no attention: {result.no_attention_error:.2g}",
        ["operations", *METHODS],
        [
            (f"{budget:.1e}", *(by_budget[budget].get(method, "–") for method in METHODS))
            for budget in budgets
        ],
    )
