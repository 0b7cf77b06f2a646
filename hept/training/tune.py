"""Search of settings on the validation split: ranges enter, runs and the best settings leave.

The study is a journal in the folder; trials are run folders beside it. A killed search goes on with the same
command: its journal has the finished trials, and the run of an unfinished one continues.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from hepdata.errors import InputError, JobError
from hepdata.storage.atomic import disk_errors, write_atomically
from hepdata.storage.dataset.lock import hold_lock
from hepdata.yaml_text import parse_yaml
from hept.runs.run import Run
from hept.settings.load import nearest_setting
from hept.settings.train_config import list_keys

if TYPE_CHECKING:
    import optuna

JOURNAL = "study.journal"


@dataclass(frozen=True)
class Range:
    """Numbers between two ends, both included.

    Attributes:
        low: Smallest.
        high: Largest.
        scale: Even steps, or even factors.
    """

    low: float
    high: float
    scale: Literal["linear", "log"] = "linear"

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are meant: both ends are."""
        return isinstance(self.low, int) and isinstance(self.high, int)


Plain = None | bool | int | float | str
# Choices, or a range: [1, 2, 4], Range(1e-4, 1e-2, "log"), or as text "1,2,4", "1e-4:1e-2:log".
Space = Range | list[Plain]


@dataclass(frozen=True)
class TuneTrial:
    """One set of settings that was tried.

    Attributes:
        number: From 0 on.
        run: Its run folder.
        value: Best validation metric; minus infinity if the training failed.
        settings: By dotted name.
    """

    number: int
    run: Path
    value: float
    settings: dict[str, object]


def parse_search(search: Mapping[str, object] | Sequence[str] | str) -> dict[str, Space]:
    """Check the names of settings, and read what is given as text.

    Raises:
        InputError: An unknown setting, or no range nor list.
    """
    if isinstance(search, str):
        search = [search]
    if not isinstance(search, Mapping):
        search = dict(_split_space(text) for text in search)
    if not search:
        raise InputError("`search`", found="nothing", expected="one setting or more", remedy=EXAMPLE)
    for name in search:
        if name not in list_keys():
            raise InputError(
                f"`search`, {name}",
                found="no such setting",
                expected="a setting of hept-train settings",
                remedy=nearest_setting(name),
            )
    return {name: _parse_space(name, space) for name, space in search.items()}


EXAMPLE = "for instance optimizer.lr=1e-4:1e-2:log or model.n_tables=1,2,3"


def _split_space(text: str) -> tuple[str, str]:
    name, equals, space = text.partition("=")
    if not equals:
        raise InputError(
            f"`search`, {text}", found="no '='", expected="SETTING=RANGE or CHOICES", remedy=EXAMPLE
        )
    return name, space


def _parse_space(name: str, space: object) -> Space:
    if isinstance(space, Range):
        found: Space = space
    elif isinstance(space, list | tuple):
        found = list(space)
    else:
        found = _parse_text(name, str(space))
    if isinstance(found, Range):
        is_low = found.low < found.high and math.isfinite(found.high - found.low)
        if not is_low or (found.scale == "log" and found.low <= 0) or found.scale not in ("linear", "log"):
            raise _bad_space(name, space)
    elif not found or not all(isinstance(value, Plain) for value in found):
        raise _bad_space(name, space)
    return found


def _parse_text(name: str, text: str) -> Space:
    try:
        if ":" not in text:
            return [cast("Plain", parse_yaml(part)) for part in text.split(",")]
        low, high, *rest = text.split(":")
        ends = [_number(part) for part in (low, high)]
        if rest not in ([], ["log"], ["linear"]):
            raise ValueError(rest)
        return Range(ends[0], ends[1], "log" if rest == ["log"] else "linear")
    except ValueError as error:
        raise _bad_space(name, text) from error


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _bad_space(name: str, space: object) -> InputError:
    return InputError(
        f"`search`, {name}",
        found=str(space)[:100],
        expected="LOW:HIGH, LOW:HIGH:log with LOW above 0, or values with commas",
        remedy=EXAMPLE,
    )


def tune(
    train: Callable[[dict[str, object], Path], Run],
    out: Path,
    search: Mapping[str, Space],
    *,
    trials: int,
    seed: int,
    announce: Callable[[str], None],
) -> list[TuneTrial]:
    """Search with Optuna's tree-structured Parzen estimator until `trials` trials are finished.

    Args:
        train: Trains with these settings into this folder, or goes on there.
        out: Folder of the study.
        search: By dotted name.
        trials: Finished trials in all, those of earlier calls included.
        seed: Of the proposals.
        announce: Told the result of every trial.

    Returns:
        All trials, the best first.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    with hold_lock(out):
        study = _open_study(out, search, seed)
        for left in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
            # Left by a killed call: its run continues as a new trial.
            study.tell(left.number, state=optuna.trial.TrialState.FAIL)
            name = _run_of(left, out)
            study.enqueue_trial(left.params, user_attrs={"run": name})
        while (n_done := len(_list_trials(study, out))) < trials:
            trial = study.ask()
            name = _run_of(trial, out)
            trial.set_user_attr("run", name)
            settings = {key: _suggest(trial, key, space) for key, space in search.items()}
            try:
                result = train(settings, out / name).result
            except JobError as error:
                # A diverged training counts as a result.
                announce(f"trial {n_done + 1}: {error}")
                result = None
            if result is not None and result.stopped == "interrupted":
                break
            best = None if result is None else result.best
            value = -math.inf if best is None or math.isnan(best) else best
            study.tell(trial, value)
            shown = ", ".join(f"{key}={_short(value)}" for key, value in settings.items())
            announce(f"trial {n_done + 1} of {trials}: {value:.4g} with {shown}")
        return sorted(_list_trials(study, out), key=lambda found: found.value, reverse=True)


def _open_study(out: Path, search: Mapping[str, Space], seed: int) -> optuna.Study:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    path = out / JOURNAL
    _mend(path)
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(
            storage=storage, study_name="hept", direction="maximize", load_if_exists=True
        )
    except Exception as error:  # JSON and Optuna raise many kinds of exceptions for a damaged journal
        raise InputError(
            path,
            found=f"an unreadable file ({type(error).__name__}: {' '.join(str(error).split())[:150]})",
            expected="the journal of a search",
            remedy="remove it to begin the search again, or choose another `out`",
        ) from error
    described = {name: str(space) for name, space in search.items()}
    kept = study.user_attrs.get("search")
    if kept not in (None, described):
        raise InputError(
            out,
            found=f"a search of other settings ({', '.join(f'{k}={v}' for k, v in kept.items())})"[:300],
            expected="the same settings and ranges",
            remedy="continue it with these, or choose another `out`",
        )
    study.set_user_attr("search", described)
    # With the same seed, a resumed study would propose its first trials again.
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    return study


def _mend(journal: Path) -> None:
    """Remove what a process that has died left: half of the last line, and Optuna's lock. Ours is held."""
    journal.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    content = journal.read_bytes() if journal.is_file() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        with write_atomically(journal) as file:
            file.write(whole)


def _run_of(trial: optuna.Trial | optuna.trial.FrozenTrial, out: Path) -> str:
    """Name of the trial's run folder; a journal may be somebody else's."""
    name = trial.user_attrs.get("run") or f"trial-{trial.number:03}"
    if not re.fullmatch(r"trial-\d{3,9}", str(name)):
        raise InputError(
            out / JOURNAL,
            found=f"a run called {name!r}"[:200],
            expected="names such as trial-000",
            remedy="remove it to begin the search again, or choose another `out`",
        )
    return str(name)


def _suggest(trial: optuna.Trial, name: str, space: Space) -> object:
    if not isinstance(space, Range):
        return trial.suggest_categorical(name, space)
    is_log = space.scale == "log"
    if space.is_whole:
        return trial.suggest_int(name, int(space.low), int(space.high), log=is_log)
    return trial.suggest_float(name, space.low, space.high, log=is_log)


def _list_trials(study: optuna.Study, out: Path) -> list[TuneTrial]:
    import optuna

    done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    return [TuneTrial(t.number, out / _run_of(t, out), float(t.value or 0.0), dict(t.params)) for t in done]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
