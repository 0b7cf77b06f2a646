"""The function behind `hept-train compare`: a dataset enters, the paper's tables leave."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hepdata.loader.dataset import DatasetLike, open_dataset
from hepdata.progress import ProgressChoice, listen
from hept.devices.choice import Precision, check_device
from hept.model.dataset_checks import check_split, check_training, find_target
from hept.paper.comparison.trainings import choose_models, choose_tables, parse_budget
from hept.runs.plan import count_points, warn_of_published
from hept.settings.load import Settings, load_config
from hept.settings.preset_choice import choose_preset

if TYPE_CHECKING:
    from hept.paper.comparison.comparison import Findings
    from hept.paper.comparison.paper_tables import ResultTable


@dataclass(frozen=True)
class Comparison:
    """Every system of the paper on one dataset.

    Attributes:
        findings: All numbers.
        tables: The numbers as tables.
        files: Written files: a page first, then CSV and PNG files.
    """

    findings: Findings
    tables: tuple[ResultTable, ...]
    files: tuple[Path, ...]


def compare(
    dataset: DatasetLike,
    out: str | os.PathLike[str] = "compare",
    *,
    models: str | Sequence[str] = "all",
    tables: str | Sequence[str] = "all",
    budget: str | None = None,
    preset: str | None = None,
    settings: Settings = (),
    repeats: int = 5,
    max_points: int = 2**18,
    max_seconds: float = 60.0,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Comparison:
    """Train or load every system of the paper, measure each, and write the paper's tables.

    Args:
        dataset: Location, or the opened dataset.
        out: Folder of runs, results and tables; repeating the call continues from the results in it.
        models: Names of systems, also as one comma-separated string; "all": the rows of the paper's table 1.
        tables: Some of accuracy, time, memory, ablation, sensitivity, latency, scaling.
        budget: Budget of each training: "20epochs", "90s", "5min", "2h"; by default that of the preset.
        preset: Settings that all systems share; by default chosen by cloud size.
        settings: Changes to the preset by dotted name.
        repeats: Repetitions of each timing.
        max_points: Largest cloud of the scaling figure.
        max_seconds: A scaling curve ends after a training step that takes longer.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto": a GPU if there is one.
        precision: Floating-point precision; the same as the setting `precision`.
        threads: Threads on a CPU; by default the number of idle cores.
        progress: See `hepdata.progress.listen`.

    Raises:
        InputError: Settings or dataset cannot be used.
    """
    chosen = choose_models(_join(models)), choose_tables(_join(tables)), parse_budget(budget)
    check_device(device)
    opened = open_dataset(dataset)
    # The published settings also on a CPU, since the paper's tables compare them.
    if preset is None:
        objective = find_target(opened).objective
        preset = choose_preset(opened.task, count_points(opened), has_gpu=True, objective=objective).name
    base = load_config(preset, settings, task=opened.task)
    if precision is not None:
        base = base.model_copy(update={"precision": precision})
    check_training(base, opened)
    check_split(opened, "test")
    with listen(progress) as listener:
        if budget is None:
            warn_of_published(preset, device, listener.announce)
        # Imported after all checks: torch takes seconds.
        from hept.devices.threads import choose_threads, use_threads
        from hept.paper.comparison.claims import tabulate_claims
        from hept.paper.comparison.comparison import ComparisonSettings, run_comparison
        from hept.paper.comparison.paper_tables import make_tables
        from hept.paper.comparison.report import write_tables
        from hept.paper.comparison.scaling import ScalingLimits

        limits = ScalingLimits(max_points=max_points, max_seconds=max_seconds)
        plan = ComparisonSettings(*chosen, repeats, limits, device)
        with use_threads(choose_threads(threads)):
            findings = run_comparison(
                opened, base, plan, Path(out), progress=listener, announce=listener.announce
            )
    claims = tabulate_claims(findings)
    made = [*make_tables(findings), *([claims] if claims.rows else [])]
    return Comparison(findings, tuple(made), tuple(write_tables(findings, made, Path(out))))


def _join(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)
