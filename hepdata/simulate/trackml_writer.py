"""Simulated events as the files of the TrackML challenge.

In: `SimulatedEvent` and `Detector`. Out: `event#########-{hits,cells,particles,truth}.csv[.gz]` and
`detectors.csv[.gz]`. Numbers have six significant digits, as there. Every file is written under a hidden name
and then renamed, an event's hits last: an event with a hits file is complete, even after a killed run.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from hepdata.errors import InputError, JobError
from hepdata.progress import Progress, Silent
from hepdata.schema import SCORED_PT

from .detector import FloatArray, ModuleTable
from .recording import SimulatedEvent, Table
from .tracking import Simulation, ToySimulation

TABLES = ("cells", "particles", "truth", "hits")  # in the order of writing
FIRST_EVENT = 1000
MAX_EVENT = 999_999_999  # nine digits in the file names

_EVENT_FILE = re.compile(r"event\d{9}-(hits|cells|particles|truth)\.csv(\.gz)?")
_GZIP_LEVEL = 1  # higher levels take seconds longer and save little


@dataclass(frozen=True)
class SimulationSummary:
    """What one call of `simulate_files` wrote.

    Attributes:
        n_events: Events.
        n_hits: Hits of all events.
        n_noise: Hits that belong to no particle.
        n_cells: Cells.
        n_particles: Particles.
        n_high_pt: Particles with pt > `SCORED_PT`.
        n_bytes: Size of all files.
    """

    n_events: int = 0
    n_hits: int = 0
    n_noise: int = 0
    n_cells: int = 0
    n_particles: int = 0
    n_high_pt: int = 0
    n_bytes: int = 0

    def plus(self, other: SimulationSummary) -> SimulationSummary:
        """Both together."""
        return SimulationSummary(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def simulate_files(
    out: Path,
    *,
    n_events: int,
    hits_per_event: int,
    seed: int = 0,
    first_event: int = FIRST_EVENT,
    compress: bool = False,
    simulation: Simulation | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> SimulationSummary:
    """Simulate events `first_event`, `first_event` + 1, … into the folder `out`.

    Args:
        out: A folder, created if necessary. Files of the same names are replaced; other files of a TrackML
            dataset are refused, because a later build would mix the events of two simulations.
        n_events: How many.
        hits_per_event: About how many hits in each, noise included.
        seed: The same seed gives the same bytes; an event does not depend on the number of events.
        first_event: Number of the first event.
        compress: Write `.csv.gz`.
        simulation: Makes the events; the toy detector unless given.
        workers: Number of processes; the events do not depend on it.
        progress: Told of every event.

    Raises:
        InputError: If a number is out of range or `out` cannot take the files.
        JobError: If writing fails.
    """
    progress = progress or Silent()
    simulation = simulation or ToySimulation()
    _check_numbers(n_events, hits_per_event, seed, first_event, workers, simulation.min_hits)
    detectors_name, detectors = (
        f"detectors.csv{_suffix(compress)}",
        _encode(describe_detector(simulation.modules), compress),
    )
    events = range(first_event, first_event + n_events)
    _check_folder(out, events, compress, detectors_name, detectors)
    _make_folder(out)
    try:
        _write_all(out, {detectors_name: detectors})
        summary = SimulationSummary(n_bytes=len(detectors))
        progress.start("simulate", n_events, "event")
        write_one = partial(
            _write_one, out, simulation=simulation, n_hits=hits_per_event, seed=seed, compress=compress
        )
        for event in _each(write_one, events, min(workers, n_events)):
            summary = summary.plus(event)
            progress.advance(note=f"{event.n_hits:,} hits")
    except OSError as error:
        raise JobError(
            out,
            found=f"a file that cannot be written ({error.strerror})",
            expected="a writable folder with enough space for the events",
            remedy="free space or choose another folder, then run the same command again",
        ) from error
    finally:
        progress.finish()
    return summary


def _write_one(
    out: Path, event_id: int, *, simulation: Simulation, n_hits: int, seed: int, compress: bool
) -> SimulationSummary:
    event = simulation.simulate_event(event_id, n_hits, seed)
    pt = np.hypot(event.particles["px"], event.particles["py"])
    return SimulationSummary(
        1,
        event.n_hits,
        int(np.count_nonzero(event.truth["particle_id"] == 0)),
        len(event.cells["hit_id"]),
        len(pt),
        int(np.count_nonzero(pt > SCORED_PT)),
        write_event(out, event, compress=compress),
    )


def _each(
    write_one: Callable[[int], SimulationSummary], events: range, workers: int
) -> Iterator[SimulationSummary]:
    """Write every event, in this process or in others."""
    if workers == 1:
        yield from map(write_one, events)
        return
    try:
        yield from Parallel(workers, return_as="generator_unordered")(map(delayed(write_one), events))
    except TerminatedWorkerError as error:
        raise JobError(
            "simulation",
            found="a worker process that died (killed or out of memory)",
            expected="every worker to finish its events",
            remedy="run the same command again with fewer `workers`",
        ) from error


def write_event(out: Path, event: SimulatedEvent, *, compress: bool = False) -> int:
    """Write the four files of one event into an existing folder; returns their size in bytes."""
    files = {
        f"event{event.event_id:09d}-{name}.csv{_suffix(compress)}": _encode(getattr(event, name), compress)
        for name in TABLES
    }
    _write_all(out, files)
    return sum(len(content) for content in files.values())


def describe_detector(modules: ModuleTable) -> Table:
    """The columns of `detectors.csv`, in the challenge's order."""
    columns: Table = {
        "volume_id": modules.volume_id,
        "layer_id": modules.layer_id,
        "module_id": modules.module_id,
    }
    columns |= {f"c{axis}": modules.centre[:, i] for i, axis in enumerate("xyz")}
    columns |= {
        f"rot_{axis}{local}": modules.rotation[:, i, j]
        for i, axis in enumerate("xyz")
        for j, local in enumerate("uvw")
    }
    return columns | {
        "module_t": modules.half_thickness,
        "module_minhu": modules.min_half_u,
        "module_maxhu": modules.max_half_u,
        "module_hv": modules.half_v,
        "pitch_u": modules.pitch[:, 0],
        "pitch_v": modules.pitch[:, 1],
    }


def round_significant(values: FloatArray, digits: int = 6) -> FloatArray:
    """`values` rounded to this many significant digits; below 1e-12 they become zero.

    >>> round_significant(np.array([-126.74749, 1.23456789e-5])).tolist()
    [-126.747, 1.23457e-05]
    """
    values = np.where(np.abs(values) < 1e-12, 0.0, values)
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log10(np.abs(values)))
    shift = digits - 1 - np.where(np.isfinite(exponent), exponent, 0.0)
    # Division by an exact power of ten rounds correctly; powers from 10⁰ to 10²² are exact.
    up, down = 10.0 ** np.maximum(shift, 0), 10.0 ** np.maximum(-shift, 0)
    rounded: FloatArray = np.rint(values * up / down) / up * down + 0.0  # + 0.0: no negative zero
    return rounded


def _encode(table: Table, compress: bool) -> bytes:
    columns = [
        pa.array(column if column.dtype.kind == "i" else round_significant(column.astype(np.float64)))
        for column in table.values()
    ]
    sink = io.BytesIO()
    # The header is written by hand: the writer would put its names in quotation marks, unlike the challenge.
    sink.write((",".join(table) + "\n").encode())
    options = pa.csv.WriteOptions(include_header=False, quoting_style="none", batch_size=65536)
    pa.csv.write_csv(pa.table(columns, names=list(table)), sink, options)
    content = sink.getvalue()
    return gzip.compress(content, compresslevel=_GZIP_LEVEL, mtime=0) if compress else content


def _write_all(out: Path, files: dict[str, bytes]) -> None:
    """Write files under hidden names, then rename them."""
    for name, content in files.items():
        (out / f".{name}.partial").write_bytes(content)
    for name in files:
        (out / f".{name}.partial").replace(out / name)


def _suffix(compress: bool) -> str:
    return ".gz" if compress else ""


def _check_numbers(
    n_events: int, hits_per_event: int, seed: int, first_event: int, workers: int, min_hits: int
) -> None:
    limits = {
        "`events`": (n_events, 1, MAX_EVENT),
        "`hits_per_event`": (hits_per_event, min_hits, 10_000_000),
        "`seed`": (seed, 0, 2**63 - 1),
        "`first_event`": (first_event, 0, MAX_EVENT - max(n_events, 1) + 1),
        "`workers`": (workers, 1, 1024),
    }
    for name, (value, low, high) in limits.items():
        if not low <= value <= high:
            raise InputError(
                name,
                found=str(value),
                expected=f"a number from {low} to {high}",
                remedy="choose one in that range",
            )


def _check_folder(out: Path, events: range, compress: bool, detectors_name: str, detectors: bytes) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(out, found="a file", expected="a folder", remedy="choose the name of a folder")
    if not out.is_dir():
        return

    def is_ours(name: str) -> bool:
        return name.endswith(".gz") == compress and int(name[5:14]) in events

    for name in sorted(path.name for path in out.iterdir()):
        if _EVENT_FILE.fullmatch(name) and not is_ours(name):
            _refuse(out, f"{name}, of another simulation or dataset")
        if name.startswith("detectors.csv") and (
            name != detectors_name or (out / name).read_bytes() != detectors
        ):
            _refuse(out, f"{name} of another detector")


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            out,
            found=f"a path where no folder can be created ({error.strerror})",
            expected="a writable folder",
            remedy="choose another folder",
        ) from error


def _refuse(out: Path, found: str) -> None:
    raise InputError(
        out,
        found=found,
        expected="an empty folder, or events that this command would replace",
        remedy="choose another folder or remove the old events",
    )
