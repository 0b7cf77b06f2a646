"""Checks of one cloud: each function yields problems and what to do about them.

Axes: N points, E pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hepdata.cloud import PairList, PointCloud
from hepdata.schema import Column

# No detector measures beyond: η = 20 is 4e-9 rad from the beam.
MAX_ABS_ETA = 20.0
REBUILD = "build the dataset again from its source"
Problem = tuple[str, str]


def check_cloud(cloud: PointCloud, n_points: int, columns: Sequence[Column] = ()) -> Iterator[Problem]:
    """Check everything that the cloud alone shows.

    Yields:
        Problem and remedy.
    """
    lengths = {name: len(values) for name, values in cloud.columns.items()}
    wrong = {name: length for name, length in lengths.items() if length != n_points}
    if wrong:
        yield f"columns of other lengths than {n_points} points: {wrong}", REBUILD
        return
    yield from _check_numbers(cloud)
    yield from _check_ids(cloud)
    yield from _check_classes(cloud, columns)
    yield from _check_labels(cloud)
    for name, pairs in (("pos", cloud.positives), ("neg", cloud.negatives)):
        if pairs is not None:
            yield from _check_pairs(cloud, name, pairs)


def _check_numbers(cloud: PointCloud) -> Iterator[Problem]:
    for name, values in cloud.columns.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            n_bad = int((~np.isfinite(values)).sum())
            yield (
                f"{n_bad} values of {name} are NaN or infinite",
                f"repair the source or drop these points; {REBUILD}",
            )
    if "phi" in cloud.columns and (np.abs(cloud.phi) > np.float32(np.pi)).any():
        worst = float(np.abs(cloud.phi).max())
        yield f"φ of {worst:.4g} outside [−π, π]", f"wrap φ in the source; {REBUILD}"
    if "eta" in cloud.columns and (np.abs(cloud.eta) > MAX_ABS_ETA).any():
        worst = float(np.abs(cloud.eta).max())
        yield f"|η| of {worst:.4g} above {MAX_ABS_ETA:g}", f"cut in η; {REBUILD}"


def _check_ids(cloud: PointCloud) -> Iterator[Problem]:
    for name in ("hit_id", "index_in_source"):
        if name in cloud.columns and len(np.unique(cloud.columns[name])) != cloud.n_points:
            yield f"{name} is not unique", f"the source holds points twice; {REBUILD}"
    if "particle_id" in cloud.columns and (cloud.particle_id < 0).any():
        yield "negative particle_id", REBUILD


def _check_classes(cloud: PointCloud, columns: Sequence[Column]) -> Iterator[Problem]:
    for column in columns:
        values = cloud.columns[column.name]
        if column.n_classes and ((values < 0) | (values >= column.n_classes)).any():
            yield f"{column.name} outside 0 … {column.n_classes - 1}", REBUILD


def _check_labels(cloud: PointCloud) -> Iterator[Problem]:
    columns = cloud.columns
    if "pt" in columns and (cloud.pt < 0).any():
        yield "negative pt", REBUILD
    if "is_reconstructable" in columns and "particle_id" in columns:
        if cloud.is_reconstructable[cloud.particle_id == 0].any():
            yield "noise that is reconstructable", REBUILD
        if _differs_within(cloud, "is_reconstructable"):
            yield "a particle of which only some points are reconstructable", REBUILD
    if "particle_id" in columns and "pt" in columns and _differs_within(cloud, "pt"):
        yield "a particle with several values of pt", REBUILD
    if "is_scored" in columns and "charge" in columns and cloud.is_scored[cloud.charge != 0].any():
        yield "charged points that are scored", REBUILD


def _differs_within(cloud: PointCloud, name: str) -> bool:
    """Whether points of the same particle disagree in a label of the particle."""
    is_particle = cloud.particle_id > 0
    particle = cloud.particle_id[is_particle]
    label = cloud.columns[name][is_particle]
    order = np.argsort(particle, kind="stable")
    same_particle = particle[order][1:] == particle[order][:-1]
    same_label = (label[order][1:] == label[order][:-1]) | (label[order][1:] != label[order][1:])
    return bool((same_particle & ~same_label).any())


def _check_pairs(cloud: PointCloud, name: str, pairs: PairList) -> Iterator[Problem]:
    ptr, idx, n = pairs.ptr, pairs.idx, cloud.n_points
    if len(ptr) != n + 1 or ptr[0] != 0 or ptr[-1] != len(idx) or (np.diff(ptr) < 0).any():
        yield f"{name}_ptr does not divide the {len(idx)} partners over {n} points", REBUILD
        return
    if len(idx) and (idx.min() < 0 or idx.max() >= n):
        yield f"{name}_idx from {idx.min()} to {idx.max()} in a cloud of {n} points", REBUILD
        return
    anchors = np.repeat(np.arange(n, dtype=np.int32), np.diff(ptr))
    ascends = (idx[1:] > idx[:-1]) | (anchors[1:] != anchors[:-1])
    if not ascends.all():
        yield f"{name}_idx does not ascend within a point's list", REBUILD
    if (anchors == idx).any():
        yield f"a point in its own {name}_idx", REBUILD
    if "particle_id" not in cloud.columns:
        return
    is_same = (cloud.particle_id[anchors] == cloud.particle_id[idx]) & (cloud.particle_id[anchors] > 0)
    if name == "pos" and not is_same.all():
        yield f"{int((~is_same).sum())} positive pairs of different particles", REBUILD
    if name == "neg" and is_same.any():
        yield f"{int(is_same.sum())} negative pairs of the same particle", REBUILD
