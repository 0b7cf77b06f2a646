"""Clouds turned, reflected and thinned at random: a cloud as it is stored enters, a variant of it leaves.

Labels stay: a turned particle is the same particle. So do pairs, since distances in (η, φ) do; only pairs of
dropped points go. What changes how is data of the dataset's schema (`hepdata.symmetries`).
Axes: N points, E pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import InputError
from hepdata.schema import Schema
from hepdata.symmetries import Symmetries


@dataclass(frozen=True)
class Augmentation:
    """Random changes of clouds.

    Attributes:
        rotate: Turn every cloud about the beam by a random angle.
        reflect: Reflect every second cloud, by chance, at z = 0.
        drop: Probability of a point to be dropped.
        wedge: Part of the full turn in φ that is kept of every cloud, beginning at a random angle.
        seed: Of all of it.
    """

    rotate: bool = False
    reflect: bool = False
    drop: float = 0.0
    wedge: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.drop < 1:
            raise ValueError(f"drop: got {self.drop}, need a probability below 1")
        if not 0 < self.wedge <= 1:
            raise ValueError(f"wedge: got {self.wedge}, need a part of a turn, above 0 and at most 1")

    def __bool__(self) -> bool:
        return self.rotate or self.reflect or self.drop > 0 or self.wedge < 1

    def check(self, schema: Schema, inputs: Collection[str], where: str) -> None:
        """Check that it is known how these columns of a dataset change.

        Raises:
            InputError: The dataset does not say it, or says that it is not known.
        """
        if self.wedge < 1 and "phi" not in inputs:
            raise InputError(
                where,
                found=f"augment.wedge={self.wedge} without the input 'phi'",
                expected="an azimuth among features or coordinates",
                remedy="set augment.wedge to 1, or name phi in data.features or data.coords",
            )
        symmetries = schema.symmetries
        for name, is_wanted in (("rotate", self.rotate), ("reflect", self.reflect)):
            if not is_wanted:
                continue
            if symmetries is None:
                raise _refuse(where, f"augment.{name} with a dataset that does not say what it changes", name)
            unknown = symmetries.not_turned if name == "rotate" else symmetries.not_reflected
            lost = sorted(set(unknown) & set(inputs))
            if lost:
                raise _refuse(where, f"augment.{name} with the input {lost[0]!r}", name)

    def add_partners(self, names: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
        """The columns to be read: a component of a vector is turned with the other one."""
        if not self.rotate or schema.symmetries is None:
            return names
        both = [pair for pair in schema.symmetries.vectors if set(pair) & set(names)]
        return tuple(dict.fromkeys([*names, *(name for pair in both for name in pair)]))

    def apply(self, cloud: PointCloud, epoch: int, index: int) -> PointCloud:
        """Augment a cloud; seed, epoch and index determine the result."""
        rng = np.random.default_rng([self.seed, epoch, index])
        # All numbers are drawn, so that one setting does not change what another does.
        turn, is_reflected = float(rng.random()), bool(rng.random() < 0.5)
        schema = cloud.schema
        if schema is not None and schema.symmetries is not None:
            if self.rotate:
                cloud = replace(cloud, columns=rotate(cloud.columns, turn, schema))
            if self.reflect and is_reflected:
                cloud = replace(cloud, columns=reflect(cloud.columns, schema.symmetries))
        if self.drop:
            cloud = _keep_some(cloud, rng.random(cloud.n_points) >= self.drop)
        if self.wedge < 1:
            behind = cloud.columns["phi"].astype(np.float64) / (2 * np.pi) - rng.random()
            cloud = _keep_some(cloud, np.mod(behind, 1.0) < self.wedge)
        return cloud


def rotate(columns: Mapping[str, NDArray[Any]], turn: float, schema: Schema) -> dict[str, NDArray[Any]]:
    """The columns of an event that was turned about the beam by a part of a full turn."""
    symmetries = schema.symmetries or Symmetries()
    turned = dict(columns)
    for name in symmetries.angles:
        if name in columns:
            period = schema.column(name).period or 2 * np.pi
            turned[name] = _wrap(
                columns[name].astype(np.float64) + turn * period, period, columns[name].dtype
            )
    cosine, sine = np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)
    for names in symmetries.vectors:
        if set(names) <= set(columns):
            x, y = (columns[name].astype(np.float64) for name in names)
            turned[names[0]] = (cosine * x - sine * y).astype(columns[names[0]].dtype)
            turned[names[1]] = (sine * x + cosine * y).astype(columns[names[1]].dtype)
    return turned


def reflect(columns: Mapping[str, NDArray[Any]], symmetries: Symmetries) -> dict[str, NDArray[Any]]:
    """The columns of an event that was reflected at z = 0; a solenoid's field stays as it is."""
    reflected = dict(columns)
    for name in symmetries.reversed:
        if name in columns:
            reflected[name] = -columns[name]
    for name, opposite in symmetries.mirrored:
        if name in columns:
            reflected[name] = np.asarray(opposite, dtype=columns[name].dtype)[columns[name]]
    return reflected


def _keep_some(cloud: PointCloud, kept: NDArray[np.bool_]) -> PointCloud:
    """Without points no batch can be made: then the cloud stays whole."""
    return keep_points(cloud, kept) if kept.any() else cloud


def keep_points(cloud: PointCloud, kept: NDArray[np.bool_]) -> PointCloud:
    """The cloud without some points, and without their pairs."""
    columns = {name: values[kept] for name, values in cloud.columns.items()}
    lists = [
        None if pairs is None else _keep_pairs(pairs, kept) for pairs in (cloud.positives, cloud.negatives)
    ]
    return replace(cloud, columns=columns, positives=lists[0], negatives=lists[1])


def _keep_pairs(pairs: PairList, kept: NDArray[np.bool_]) -> PairList:
    number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    is_left = kept[pairs.idx]
    is_left &= np.repeat(kept, np.diff(pairs.ptr))
    before = np.zeros(len(is_left) + 1, dtype=np.int32)
    np.cumsum(is_left, out=before[1:])
    # Rows of dropped points are empty by now.
    ptr = np.append(before[pairs.ptr[:-1]][kept], before[-1:])
    return PairList(ptr.astype(np.int32), number[pairs.idx[is_left]])


def _wrap(values: NDArray[np.float64], period: float, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Angles in [−period/2, period/2), also after rounding to their type."""
    half = dtype.type(period / 2)
    wrapped = (np.mod(values + period / 2, period) - period / 2).astype(dtype)
    return np.where(wrapped >= half, -half, wrapped)


def _refuse(where: str, found: str, name: str) -> InputError:
    return InputError(
        where,
        found=found,
        expected="columns of which it is known how they change",
        remedy="build the dataset again with this version, say it as `symmetries` in the schema of a table, "
        f"leave the column out of data.features, or set augment.{name} to false",
    )
