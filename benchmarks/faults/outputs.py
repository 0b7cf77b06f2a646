"""Jobs whose output people and other programs read; a file is the old or the new one at every moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import uproot

import hepdata
import hept
from benchmarks.faults.jobs import TINY_MODEL, Job, Result, read_run
from hepdata.storage.friend_file import TREE

OLD = b"of another day"


def read_all(path: Path) -> Result:
    """Every file at or below a path; hidden ones are not finished."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    shown = [
        f for f in files if f.is_file() and not any(p.startswith(".") for p in f.relative_to(path).parts)
    ]
    return {str(file.relative_to(path)): file.read_bytes() for file in shown}


def read_report(run: Path) -> Result:
    """The pages of a run."""
    return {name: content for name, content in read_all(run).items() if name.endswith(".html")}


def read_exported(folder: Path) -> Result:
    """Exported models contain time stamps: they are compared by loading them."""
    return {
        name: content if content == OLD else _load(folder / name)
        for name, content in read_all(folder).items()
    }


def _load(path: Path) -> bytes:
    if path.suffix == ".root":
        with uproot.open(path) as file:
            return repr(file[TREE].arrays().to_list()).encode()
    return repr(torch.export.load(path).graph_signature.input_specs).encode()


def read_study(folder: Path) -> Result:
    """The runs of a search; a search that was killed proposes other settings than one that was not."""
    runs = [path for path in folder.iterdir() if path.is_dir()]
    return {"n": str(sum(bool(read_run(run)) for run in runs)).encode()}


def _age(folder: Path, file: str) -> None:
    """Put an old file where a job will write."""
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_bytes(OLD)


def report(folder: Path) -> object:
    """Evaluate and write `report.html` and the page of events."""
    return hept.write_report(folder / "run", folder / "all", "train", device="cpu", threads=1)


def predict(folder: Path) -> object:
    """Write points with embeddings and tracks, and the tracks' fits."""
    model, out = folder / "run", folder / "out" / "points.parquet"
    return hept.predict(model, folder / "all", out, method="dbscan", device="cpu", threads=1)


def track(folder: Path) -> object:
    """Tracks of raw events."""
    model, out = folder / "run", folder / "out" / "tracks.csv"
    return hept.find_raw_tracks(model, folder / "raw", out, method="dbscan", device="cpu", threads=1)


def clean(folder: Path) -> object:
    """Answers for the particles of a Delphes file."""
    return hept.clean(
        folder / "run-pileup", folder / "pileup.root", folder / "out" / "friend.root", threads=1
    )


def export(folder: Path) -> object:
    """One file for torch without this package."""
    return hept.export_model(folder / "run", folder / "out" / "model.pt2", quick=True, threads=1)


def publish(folder: Path) -> object:
    """A folder for a web server; one that is there already was finished before."""
    if (folder / "out").exists():
        return True
    return hepdata.publish(folder / "all", folder / "out", events=0)


def compare(folder: Path) -> object:
    """A page of two runs."""
    runs = [folder / "run", folder / "run"]
    return hept.compare_runs(runs, folder / "out" / "runs.html", device="cpu", threads=1)


def tune(folder: Path) -> object:
    """Two trials of a search."""
    search = {"optimizer.lr": [0.001, 0.002, 0.003]}
    return hept.tune(
        folder / "all",
        folder / "out",
        search,
        trials=2,
        preset="tracking-demo",
        settings=TINY_MODEL | {"epochs": 1},
        device="cpu",
        threads=1,
    )


def draw(folder: Path) -> object:
    """Pictures of a dataset."""
    return hepdata.plot(folder / "all", folder / "out", events=1)


def view(folder: Path) -> object:
    """The interactive page."""
    return hepdata.view(folder / "all", folder / "out" / "events.html", events=2)


def pad(folder: Path) -> object:
    """One HDF5 file of clouds of one size; one that is there already was finished before."""
    out = folder / "out" / "padded.h5"
    return out.exists() or hepdata.export_padded(folder / "all", out) or True


def _job(name: str, work: Callable[[Path], object], file: str = "", **options: object) -> Job:
    """A job that writes below `out`, and finds the old `file` there."""
    prepare = partial(_age, file=f"out/{file}") if file else None
    return Job(name, work, **({"read": read_all, "cost": 3, "prepare": prepare, "is_atomic": True} | options))


OUTPUTS = (
    _job("report", report, out="run", read=read_report, prepare=partial(_age, file="run/report.html")),
    _job("predict", predict, "points.parquet"),
    _job("predict from raw events", track, "tracks.csv"),
    _job("clean", clean, "friend.root", read=read_exported),
    _job("plot", draw),
    _job("view", view, "events.html"),
    _job("export to HDF5", pad, "other.txt"),
    _job("publish", publish),
    _job("compare-runs", compare, "runs.html"),
    _job("export of a model", export, "model.pt2", read=read_exported, cost=6),
    _job("tune", tune, read=read_study, cost=6, is_atomic=False),
)
