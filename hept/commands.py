"""The commands of `hept-train` as functions: inputs are opened and checked, then torch is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hepdata.errors import InputError, missing_extra
from hepdata.loader.dataset import Dataset, DatasetLike, open_dataset
from hepdata.progress import Progress, ProgressChoice, listen
from hepdata.schema import SCORED_PT
from hepdata.viewer.page import check_events
from hept.devices.choice import Precision, check_device
from hept.model.dataset_checks import check_split
from hept.model.hub import fetch_weights, is_hub_address
from hept.model.kept import FOLDER as WEIGHTS
from hept.model.kept import find_kept
from hept.runs.folder import find_weights
from hept.runs.plan import plan_resume, plan_run, plan_settings
from hept.runs.run import Run, no_such_run, open_run
from hept.settings.load import Settings, apply_settings

if TYPE_CHECKING:
    from hept.diagnosis.diagnosis import Diagnosis
    from hept.evaluation.cleaner import Cleaned
    from hept.evaluation.predictor import Prediction
    from hept.evaluation.scoring import Scored
    from hept.evaluation.tracker import Tracked
    from hept.evaluation.tuning import Trial
    from hept.model.trained import ModelLike, TrainedModel
    from hept.report.compare_runs import RunComparison
    from hept.report.index import RunEntry
    from hept.tracks.finder import Clustering, Method
    from hept.training.memory_plan import MemoryPlan
    from hept.training.tune import TuneTrial

PathLike = str | os.PathLike[str]


def fit(
    dataset: DatasetLike | None = None,
    out: PathLike | None = None,
    *,
    preset: str | None = None,
    model: str | None = None,
    settings: Settings = (),
    init: ModelLike | None = None,
    logger: str | None = None,
    resume: PathLike | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    devices: int = 1,
    nodes: int = 1,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Run:
    """Train a model on a dataset.

    Args:
        dataset: Location, or the opened dataset; a resumed run finds its own.
        out: Run folder to make; runs/DATASET-1, or the next number that is free, where not given.
        preset: Name, or a .yaml file of your own; by task, cloud size and device where not given.
        model: Another system than HEPT, such as "gravnet"; the same as the setting `model.kind`.
        settings: Changes of the preset by dotted name: `{"epochs": 2, "model.n_tables": 5}`.
        init: Start from the network, inputs and weights of a model: a run, a weights file, or a loaded model.
        logger: "csv", "tensorboard", "wandb" or "mlflow"; the same as the setting `logger`.
        resume: A run to go on with, from its last saved state.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto": a GPU if there is one.
        precision: Of the arithmetic; the same as the setting `precision`.
        devices: Processes of a node, one device each.
        nodes: Nodes.
        threads: Of each process on a CPU; by default as many as there are idle cores.
        progress: See `hepdata.progress.listen`.

    Raises:
        InputError: Settings, dataset or folder cannot be used.
        JobError: The loss diverged, or the run folder cannot be written.
    """
    check_device(device)
    start: TrainedModel | None = None
    with listen(progress) as listener:
        if resume is not None:
            if preset or settings or out or model or precision or init or logger:
                raise InputError(
                    "`resume`",
                    found="`preset`, `model`, `precision`, `settings`, `logger`, `init` or `out` "
                    "together with it",
                    expected="the settings of the run, which are in its folder",
                    remedy="leave them out, or begin a new run",
                )
            plan = plan_resume(Path(resume), dataset)
        elif dataset is None:
            raise InputError(
                "`dataset`",
                found="neither a dataset nor a run to resume",
                expected="one of them",
                remedy="give `dataset`, or `resume`",
            )
        else:
            if init is not None:
                from hept.model.weights import load_model

                start = load_model(init)
            plan = plan_run(
                dataset,
                preset,
                _with_settings(settings, {"model.kind": model, "precision": precision, "logger": logger}),
                None if out is None else Path(out),
                device,
                listener.announce,
                start,
            )
        # Imported after all checks: torch takes seconds.
        from hept.training.trainer import fit as train

        result = train(
            plan.config,
            plan.dataset,
            plan.run,
            init=start,
            progress=listener,
            resume=resume is not None,
            device=device,
            devices=devices,
            nodes=nodes,
            threads=threads,
        )
    return Run(result.run, result)


def plan_memory(
    dataset: DatasetLike,
    *,
    preset: str | None = None,
    model: str | None = None,
    settings: Settings = (),
    device: str = "auto",
    precision: Precision | None = None,
    devices: int = 1,
    nodes: int = 1,
) -> MemoryPlan:
    """The memory that a training step would take on each GPU, from the sizes of the dataset's clouds.

    The arguments are those of `fit`.

    Raises:
        InputError: Settings or dataset cannot be used, or the model is not HEPT.
    """
    check_device(device)
    changes = _with_settings(settings, {"model.kind": model, "precision": precision})
    config, opened = plan_settings(dataset, preset, changes, device)
    from hept.training.memory_plan import plan_step

    return plan_step(config, opened, world_size=devices * nodes)


def evaluate(
    model: ModelLike,
    dataset: DatasetLike | None = None,
    split: str = "test",
    *,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> dict[str, float]:
    """Figures of merit of a model on a split; for a run with a tuned clustering those of its tracks too.

    Args:
        model: A run, a weights file, the published checkpoint, or a loaded model.
        dataset: Location, or the opened dataset; that of the run where not given.
        split: Which part of it.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto": a GPU if there is one.
        precision: Of the arithmetic; that of the model's training where not given.
        threads: On a CPU; by default as many as there are idle cores.
        progress: See `hepdata.progress.listen`.

    Returns:
        `loss`; pairs: `ap@0.9`, `ap@0.5`, `ap@0`, `precision19@…`, `recall19@…`, means over clouds;
        classification: `auc` (average precision), `roc_auc`, `f1`, pooled and `…_per_cloud`; `n_clouds`;
        the further figures of merit that the dataset's target names; and those of
        `hept.metrics.track_score.TrackScore` where tracks are looked for.

    Raises:
        InputError: No weights, no dataset, model and dataset do not fit, or the split is empty.
    """
    check_device(device)
    opened = open_inputs(model, dataset, split)
    from hept.evaluation import evaluator

    trained = _load(model, device, precision)
    clustering = _find_clustering(trained.source)
    with _work(threads, progress) as listener:
        return evaluator.evaluate(trained, opened, split, clustering=clustering, progress=listener)


def predict(
    model: ModelLike,
    dataset: DatasetLike,
    out: PathLike,
    *,
    split: str | None = None,
    method: Method | None = None,
    eps: float | None = None,
    min_points: int | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Prediction:
    """Write a model's answer for every point of a dataset to a Parquet file.

    Args:
        model: A run, a weights file, the published checkpoint, or a loaded model.
        dataset: Location, or the opened dataset.
        out: The Parquet file.
        split: One split; all where not given.
        method: "tree", "dbscan" or "hdbscan"; what was tuned for the model where not given. Without either,
            it is tuned on the validation split, or the tree finds its scale in the embeddings, and says so.
        eps: Largest distance of neighbours in a track (dbscan).
        min_points: Smallest neighbourhood or track.
        device, precision, threads, progress: As in `evaluate`.

    Raises:
        InputError: Model and dataset do not fit.
        JobError: The file cannot be written.
    """
    check_device(device)
    opened = open_inputs(model, dataset, split)
    from hept.evaluation import predictor
    from hept.evaluation.tuning import choose_clustering

    trained = _load(model, device, precision)
    with _work(threads, progress) as listener:
        chosen = choose_clustering(
            trained, opened, method=method, eps=eps, min_points=min_points, progress=listener
        )
        return predictor.predict(
            trained, opened, Path(out), split=split, clustering=chosen, progress=listener
        )


def find_raw_tracks(
    model: ModelLike,
    raw: PathLike,
    out: PathLike,
    *,
    detectors: PathLike | None = None,
    layers: str | None = None,
    max_events: int | None = None,
    method: Method | None = None,
    eps: float | None = None,
    min_points: int | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Tracked:
    """Find the tracks of raw TrackML, ACTS or ColliderML events, one event at a time.

    Args:
        model: A run, a weights file, the name of weights that come with the package, or a loaded model.
        raw: Folder or zip of events, as for `hepdata.build_tracking`; truth is not read.
        out: Parquet or CSV (as a TrackML submission) of hits with the numbers of their tracks. Beside it,
            `.fits.parquet` has one row a track: pT, charge, η, φ, d0, z0 with errors, and χ².
        detectors: Modules of TrackML's detector; by default detectors.csv next to the events.
        layers: Layers to read, pixels where not given; they must be those of the training.
        max_events: At most so many.
        method: "tree", "dbscan" or "hdbscan"; what was tuned for the model where not given. Without either
            the tree finds its scale in the embeddings, and a line says so.
        eps: Largest distance of neighbours in a track (dbscan).
        min_points: Smallest neighbourhood or track.
        device, precision, threads, progress: As in `evaluate`.

    Raises:
        InputError: Not a tracking model, unusable events, or another suffix of `out`.
        JobError: A file cannot be written.
    """
    check_device(device)
    from hept.evaluation import tracker
    from hept.evaluation.tuning import choose_clustering

    trained = _load(model, device, precision)
    with _work(threads, progress) as listener:
        chosen = choose_clustering(
            trained, None, method=method, eps=eps, min_points=min_points, progress=listener
        )
        return tracker.find_raw_tracks(
            trained,
            Path(raw),
            Path(out),
            chosen,
            detectors=None if detectors is None else Path(detectors),
            layers=layers,
            max_events=max_events,
            progress=listener,
        )


def is_raw(location: str) -> bool:
    """Whether a location holds raw tracking events: a zip, a Parquet file, or a folder without a dataset."""
    path = Path(location)
    if path.is_dir():
        return not (path / "dataset.json").exists()
    return path.suffix in (".zip", ".parquet") and path.exists()


def score_tracks(
    tracks: PathLike,
    dataset: DatasetLike,
    split: str = "test",
    *,
    pt_min: float = SCORED_PT,
    eta_max: float | None = None,
    min_hits: int = 0,
    min_layers: int = 0,
    primary: bool | None = None,
    picture: PathLike | None = None,
    progress: ProgressChoice = None,
) -> Scored:
    """Score the tracks of any tracker against the truth of a dataset.

    Args:
        tracks: Parquet or CSV with event_id, hit_id and track_id, or ColliderML's tracks.
        dataset: Location, or the opened dataset. Sectors of an event are joined.
        split: Whose events are scored.
        pt_min: Particles to be found have a larger pT, in GeV.
        eta_max: They are nearer to η = 0 than this.
        min_hits: Hits of a particle at least.
        min_layers: Layers of a particle at least, beyond the dataset's own three.
        primary: True for particles from the beam line alone, False for the others.
        picture: PNG file to draw rates against pT, η and density into.
        progress: See `hepdata.progress.listen`.

    Returns:
        Figures of merit with intervals and counts, and rates in bins.

    Raises:
        InputError: Unusable files, no truth, an unknown property, or no common event.
    """
    opened = open_dataset(dataset)
    from hept.evaluation import scoring
    from hept.metrics.tracks import TargetCuts

    cuts = TargetCuts(pt_min, eta_max, min_hits, min_layers, primary)
    with listen(progress) as listener:
        scored = scoring.score_tracks(Path(tracks), opened, split, cuts, progress=listener)
    if picture is not None:
        from hepdata.pictures.canvas import save_figure
        from hept.report.figures import draw_efficiencies

        save_figure(draw_efficiencies(scored.score), Path(picture))
    return scored


def clean(
    model: ModelLike,
    source: PathLike,
    out: PathLike,
    *,
    branches: str = "auto",
    scored_pt: float | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Cleaned:
    """Write a pileup model's weights and scaled momenta for every particle of a Delphes file.

    Args:
        model: A run, a weights file, or a loaded model.
        source: Delphes ROOT file.
        out: ROOT file, to be used as a friend tree, or Parquet file; one entry an event.
        branches: "pf", "particle-flow-candidate", "eflow", "auto", or the path of a YAML map.
        scored_pt: Neutral particles above this pT in GeV have a weight; that of the model's training dataset
            where not given, at most the published 0.9.
        device, precision, threads, progress: As in `evaluate`.

    Raises:
        InputError: Not a pileup model, an unusable file, or one without the model's inputs.
        JobError: The file cannot be written.
    """
    check_device(device)
    from hept.evaluation import cleaner

    trained = _load(model, device, precision)
    with _work(threads, progress) as listener:
        return cleaner.clean(
            trained,
            os.fspath(source),
            Path(out),
            branches=branches,
            scored_pt=scored_pt,
            progress=listener,
        )


def tune_clustering(
    run: ModelLike,
    dataset: DatasetLike | None = None,
    split: str = "valid",
    *,
    max_clouds: int = 20,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> list[Trial]:
    """Try how a model's embeddings become tracks, and keep the best in its run folder, or beside its weights.

    Args:
        run: The run, a weights file, or a loaded model.
        dataset: Location, or the opened dataset; that of the run where not given.
        split: Split to try on.
        max_clouds: Clouds to try on.
        device, precision, threads, progress: As in `evaluate`.

    Returns:
        All trials, the best first: by efficiency (double majority, above 0.9 GeV) times purity (the part of
        all tracks that match a particle) times purity of targets (the same of the tracks of particles above
        0.9 GeV).

    Raises:
        InputError: Not a model that embeds, weights of the package, or the dataset does not fit.
    """
    check_device(device)
    opened = open_inputs(run, dataset, split)
    from hept.evaluation import tuning

    trained = _load(run, device, precision)
    if (kept := Path(trained.source)).parent == WEIGHTS:
        raise InputError(
            "`run`",
            found=f"{kept.stem}, whose choice comes with the package",
            expected="a run, or weights of your own",
            remedy=f"copy {kept} to a folder of your own, and tune the copy",
        )
    with _work(threads, progress) as listener:
        trials = tuning.tune_clustering(trained, opened, split, max_clouds=max_clouds, progress=listener)
    tuning.save_clustering(Path(trained.source), trials[0].clustering)
    return trials


def write_report(
    run: PathLike,
    dataset: DatasetLike | None = None,
    split: str | None = None,
    *,
    events: int = 2,
    tune_clouds: int = 0,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Path:
    """Evaluate a run's best weights on a split and write `report.html` into its folder.

    Args:
        run: The run, or its folder.
        dataset: Location, or the opened dataset; that of the run where not given.
        split: The test split where not given, or the validation split where that is empty.
        events: Events to draw.
        tune_clouds: Clouds of the validation split on which the clustering of tracks is chosen first, as by
            `tune_clustering`; 0 keeps what was chosen before.
        device, precision, threads, progress: As in `evaluate`.

    Returns:
        The page.

    Raises:
        InputError: Not a run folder, or the dataset does not fit.
    """
    check_device(device)
    opened = open_inputs(run, dataset, split)
    split = split or choose_split(opened)
    from hept.report import write

    with _work(threads, progress) as listener:
        return write.write_report(
            Path(run),
            opened,
            split=split,
            n_events=events,
            tune_clouds=tune_clouds,
            device=device,
            precision=precision,
            progress=listener,
        )


def view(
    run: ModelLike,
    dataset: DatasetLike | None = None,
    split: str | None = None,
    out: PathLike | None = None,
    *,
    events: int = 5,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> Path:
    """Write an interactive page of events with the truth beside the model's tracks or scores.

    Args:
        run: The run, a weights file, or a loaded model.
        dataset: Location, or the opened dataset; that of the run where not given.
        split: The test split where not given, or the validation split where that is empty.
        out: The HTML file; view-SPLIT.html in the run folder where not given, else in the current folder.
        events: How many clouds, from the first one on.
        device, precision, threads, progress: As in `evaluate`.

    Returns:
        The page.

    Raises:
        InputError: No weights, no dataset, the dataset does not fit, or `events` is less than 1.
        JobError: The page cannot be written.
    """
    check_device(device)
    check_events(events)
    opened = open_inputs(run, dataset, split)
    split = split or choose_split(opened)
    from hept.evaluation.inference import run_model
    from hept.report.view import write_view
    from hept.tracks.finder import Clustering

    trained = _load(run, device, precision)
    folder = _run_of(trained.source)
    clustering = _find_clustering(trained.source) or Clustering()
    with _work(threads, progress) as listener:
        answers = run_model(trained, opened, split, max_clouds=events, progress=listener)
        title = f"{folder.resolve().name if folder else Path(trained.source).name}, {split}"
        page = Path(out) if out else (folder or Path()) / f"view-{split}.html"
        return write_view(page, title, answers, trained, opened.schema, clustering)


def tune(
    dataset: DatasetLike,
    out: PathLike,
    search: Mapping[str, object] | Sequence[str],
    *,
    trials: int = 20,
    preset: str | None = None,
    settings: Settings = (),
    seed: int = 0,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> list[TuneTrial]:
    """Search settings on the validation split with Optuna; a killed search goes on with the same call.

    Args:
        dataset: Location, or the opened dataset.
        out: Folder of the study; every trial is a run folder in it.
        search: Ranges and choices by dotted name, `{"optimizer.lr": "1e-4:1e-2:log", "epochs": [2, 3]}`, or
            texts such as "optimizer.lr=1e-4:1e-2:log". A range with whole ends has whole numbers.
        trials: Finished trials in all, those of earlier calls included.
        preset: As in `fit`.
        settings: Of all trials; `max_minutes` and `early_stopping` limit each of them.
        seed: Of the proposals; the settings decide the seed of the trainings.
        device, threads, progress: As in `evaluate`.
        precision: Of the trainings; the same as the setting `precision`.

    Returns:
        All trials, the best first.

    Raises:
        InputError: Settings, dataset or folder cannot be used, or Optuna is not installed.
        JobError: The folder cannot be written.
    """
    from importlib.util import find_spec

    from hept.training.tune import parse_search
    from hept.training.tune import tune as search_settings

    check_device(device)
    if find_spec("optuna") is None:
        raise missing_extra("optuna", "tune")
    if trials < 1:
        raise InputError("`trials`", found=str(trials), expected="1 or more", remedy="try at least once")
    spaces = parse_search(search)
    settings = _with_settings(settings, {"precision": precision})
    config, opened = plan_settings(dataset, preset, settings, device)
    base = config.model_dump()

    def train(changes: dict[str, object], folder: Path) -> Run:
        from hept.training.trainer import fit as train_model

        changed = apply_settings(base, changes)
        result = train_model(changed, opened, folder, device=device, threads=threads, progress=listener)
        return Run(folder, result)

    with listen(progress) as listener:
        return search_settings(train, Path(out), spaces, trials=trials, seed=seed, announce=listener.announce)


def compare_runs(
    runs: Sequence[PathLike],
    out: PathLike = "compare-runs.html",
    *,
    dataset: DatasetLike | None = None,
    split: str | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    threads: int | None = None,
    progress: ProgressChoice = None,
) -> RunComparison:
    """Compare runs on one page: settings that differ, metrics with errors, curves in one picture.

    Args:
        runs: Runs, or their folders.
        out: The HTML page.
        dataset: What to evaluate all runs on; each on its own where not given.
        split: The test split where not given, or the validation split where that is empty.
        device, precision, threads, progress: As in `evaluate`.

    Raises:
        InputError: Less than two runs, no run folder, or a dataset that does not fit.
        JobError: The page cannot be written.
    """
    check_device(device)
    if len(runs) < 2:
        raise InputError(
            "`runs`", found=f"{len(runs)} run", expected="two or more", remedy="name the runs to compare"
        )
    opened = [open_inputs(open_run(run), dataset, split) for run in runs]
    split = split or choose_split(opened[0])
    for one in opened:
        check_split(one, split)
    from hept.report import compare_runs as page

    with _work(threads, progress) as listener:
        return page.compare_runs(
            [Path(run) for run in runs],
            opened,
            split,
            Path(out),
            device=device,
            precision=precision,
            progress=listener,
        )


def index_runs(folder: PathLike = "runs") -> tuple[Path, list[RunEntry]]:
    """Write a page that lists all runs of a folder, with links to their reports.

    Args:
        folder: Where the runs are, at any depth.

    Returns:
        `index.html` in the folder, and its entries, the newest run first.

    Raises:
        InputError: There are no runs.
        JobError: The page cannot be written.
    """
    from hept.report.index import index_runs as write_index

    return write_index(Path(folder))


def doctor(
    *, device: str = "auto", full: bool = False, threads: int | None = None, progress: ProgressChoice = None
) -> Diagnosis:
    """Examine whether this machine computes right, and how fast; some minutes at most.

    Versions and device; errors of every kernel against float64, forward and backward; equal losses of equal
    steps; half precision; training in two processes; times and memory of forward, backward, loss, step and
    loader, beside the authors' procedure.

    Args:
        full: Times at 60,000 and 2^18 points on a CPU too, which takes long.
        device, threads, progress: As in `evaluate`.

    Raises:
        InputError: There is no such device.
    """
    check_device(device)
    from hept.devices.choice import choose_device
    from hept.diagnosis.diagnosis import examine

    with _work(threads, progress) as listener:
        return examine(choose_device(device), is_full=full, progress=listener)


@contextmanager
def _work(threads: int | None, progress: ProgressChoice) -> Iterator[Progress]:
    """Run the block with this many threads; gives the listener."""
    from hept.devices.threads import choose_threads, use_threads

    with use_threads(choose_threads(threads)), listen(progress) as listener:
        yield listener


def _load(model: ModelLike, device: str, precision: Precision | None) -> TrainedModel:
    from hept.model.weights import load_model

    return load_model(model).on(device, precision)


def _with_settings(settings: Settings, arguments: Mapping[str, str | None]) -> Settings:
    """The settings, and those that have an argument of their own."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(settings, str):
        settings = [settings]
    if isinstance(settings, Sequence):
        return [*settings, *(f"{name}={value}" for name, value in given.items())]
    return {**settings, **given}


def choose_split(dataset: Dataset) -> str:
    """The test split, or the validation split where that is missing or empty."""
    return "test" if "test" in dataset.splits and len(dataset["test"]) else "valid"


def open_inputs(model: ModelLike, dataset: DatasetLike | None, split: str | None) -> Dataset:
    """The dataset to apply a model to, where none is given that of the run; torch is not imported.

    Raises:
        InputError: No weights, no dataset, or no clouds in the split.
    """
    path = Path(model) if isinstance(model, str | os.PathLike) else Path(model.source)
    if is_hub_address(path):
        path = fetch_weights(path)
    path = find_kept(path) or path
    if not path.exists():
        raise no_such_run(path)
    opened = open_dataset(dataset) if dataset is not None else _dataset_of(path)
    find_weights(path)
    if split is not None:
        check_split(opened, split)
    return opened


def _dataset_of(path: Path) -> Dataset:
    folder = _run_of(path)
    if folder is None:
        raise InputError(
            path,
            found="no dataset named",
            expected="a dataset (only a run folder knows its own)",
            remedy="name it as `dataset`",
        )
    return open_run(folder).open_dataset()


def _run_of(path: PathLike) -> Path | None:
    """The run folder that a folder is, or that a weights file lies in."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    return folder if (folder / "run.json").exists() else None


def _find_clustering(source: str) -> Clustering | None:
    from hept.evaluation.tuning import load_clustering

    return load_clustering(Path(source))
