"""Whether an exported file computes what torch computes: a file and its model enter, a certificate leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from hepdata.errors import JobError
from hepdata.progress import Progress
from hept.export.graph import InputKind, finish_output
from hept.export.sample import Sample, draw_sample
from hept.model.trained import TrainedModel

# Largest difference at the 99th percentile of points, as a share of the root mean square of torch's outputs.
TOLERANCE = 1e-3
SINGLE_CLOUDS = (1, 23, 64, 65, 333, 6_000, 60_000)
RAGGED_CLOUDS = ((5, 0, 100, 1, 64), (0, 333, 2, 0), (3_000, 0, 2_999, 1))
# One hash that is rounded differently can swap two points between blocks, which changes all outputs of a
# small cloud. Such clouds are drawn up to this often, until a swap affects less than 1 % of all points.
MOST_DRAWS, ENOUGH_POINTS = 16, 6_000
# Sizes in points that a quick certificate leaves out.
LEFT_OUT_IF_QUICK = 60_000

Outputs = NDArray[np.float32]


@dataclass(frozen=True)
class Check:
    """Differences between the file and torch on some clouds.

    Attributes:
        sizes: Points of each cloud of a batch.
        draws: Batches of these sizes that were compared.
        scale: Root mean square of torch's outputs.
        median: Of the differences of points (the largest over the outputs of a point), divided by `scale`.
        p99: Their 99th percentile, likewise; the largest below 100 points.
        largest: The largest, likewise. Where two runtimes round a hash differently, points change blocks.
    """

    sizes: tuple[int, ...]
    draws: int
    scale: float
    median: float
    p99: float
    largest: float


@dataclass(frozen=True)
class Certificate:
    """Differences between an exported file and torch.

    Attributes:
        runtime: What ran the file, alone in a process of its own.
        version: Of the runtime.
        torch: Version that computed the other side.
        tolerance: What `p99` had to stay below.
        left_out: Sizes that were not tried.
        checks: One for each batch of clouds.
    """

    runtime: str
    version: str
    torch: str
    tolerance: float
    left_out: tuple[int, ...]
    checks: tuple[Check, ...]

    @property
    def worst(self) -> Check:
        """The check with the largest difference at the 99th percentile."""
        return max(self.checks, key=lambda check: np.inf if np.isnan(check.p99) else check.p99)

    def to_json(self) -> str:
        """For the metadata of a file."""
        return json.dumps(asdict(self))


def certify(
    path: Path, trained: TrainedModel, inputs: InputKind, *, quick: bool, threads: int, progress: Progress
) -> Certificate:
    """Run an exported file alone, and compare it with torch.

    Raises:
        JobError: The file does not run, or differs by more than `TOLERANCE`.
    """
    cases = [(n,) for n in SINGLE_CLOUDS if not (quick and n >= LEFT_OUT_IF_QUICK)]
    samples = {sizes: _draw(trained, sizes) for sizes in (*cases, *RAGGED_CLOUDS)}
    progress.announce(f"comparing {path.suffix[1:]} with torch on {len(samples)} kinds of batches")
    given = [_name_inputs(sample, inputs) for drawn in samples.values() for sample in drawn]
    runtime, outputs = run_alone(path, given, threads)
    checks, found = [], iter(outputs)
    for sizes, drawn in samples.items():
        pairs = [(_run_torch(trained, sample), next(found)) for sample in drawn]
        checks.append(compare(sizes, pairs))
    left_out = (LEFT_OUT_IF_QUICK,) if quick else ()
    certificate = Certificate(
        runtime["runtime"], runtime["version"], torch.__version__, TOLERANCE, left_out, tuple(checks)
    )
    if not certificate.worst.p99 <= TOLERANCE:
        worst = certificate.worst
        raise JobError(
            path,
            found=f"outputs that differ from torch by {worst.p99:.2g} of their scale at the 99th percentile, "
            f"on clouds of {', '.join(f'{n:,}' for n in worst.sizes)} points",
            expected=f"at most {TOLERANCE:g}",
            remedy="nothing was written; try another version of torch or of the runtime",
        )
    return certificate


def compare(sizes: tuple[int, ...], pairs: Sequence[tuple[Outputs, Outputs]]) -> Check:
    """Differences of outputs (N, …) of torch and of a file, relative to the root mean square of torch's."""
    if any(ours.shape != theirs.shape for ours, theirs in pairs):
        return Check(sizes, len(pairs), 0.0, np.inf, np.inf, np.inf)
    ours, theirs = (np.concatenate(side).astype(np.float64) for side in zip(*pairs, strict=True))
    scale = float(np.sqrt(np.mean(np.square(ours)))) or 1.0
    rows = np.abs(ours - theirs).reshape(len(ours), -1).max(1) / scale
    median, p99 = (float(np.percentile(rows, q, method="higher")) for q in (50, 99))
    return Check(sizes, len(pairs), scale, median, p99, float(rows.max()))


def _draw(trained: TrainedModel, sizes: tuple[int, ...]) -> list[Sample]:
    draws = max(1, min(MOST_DRAWS, ENOUGH_POINTS // sum(sizes)))
    return [draw_sample(trained.features, trained.coords, sizes, seed=seed) for seed in range(draws)]


def run_alone(
    path: Path, cases: Sequence[dict[str, NDArray[np.generic]]], threads: int
) -> tuple[dict[str, str], list[Outputs]]:
    """Outputs of an exported file for some inputs, from a process that does not know this package.

    Raises:
        JobError: It failed.
    """
    with TemporaryDirectory() as folder:
        given, found = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        named = {f"{i}/{name}": array for i, case in enumerate(cases) for name, array in case.items()}
        np.savez(given, **named)  # type: ignore[arg-type]  # numpy's stub takes the names for its own options
        script = Path(__file__).with_name("alone.py")
        done = subprocess.run(
            [sys.executable, "-I", str(script), str(path), str(given), str(found), str(threads)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise JobError(
                path,
                found=f"a model that does not run alone ({last[:300]})",
                expected="outputs for every cloud",
                remedy="nothing was written; try another version of torch or of the runtime",
            )
        with np.load(found) as file:
            return json.loads(done.stdout.splitlines()[-1]), [file[str(i)] for i in range(len(cases))]


def _name_inputs(sample: Sample, inputs: InputKind) -> dict[str, NDArray[np.generic]]:
    return {**sample.select(inputs), "offsets": sample.offsets}


def _run_torch(trained: TrainedModel, sample: Sample) -> Outputs:
    """Outputs of the model in this package, with its fastest kernels."""
    tensors = (torch.from_numpy(each) for each in (sample.features, sample.coords, sample.offsets))
    with torch.no_grad():
        out = trained.network(*tensors).float()
    n_outputs = trained.config.model.out_dim
    result: Outputs = finish_output(out, is_embedding=trained.is_embedding, n_outputs=n_outputs).numpy()
    return result
