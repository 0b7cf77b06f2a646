"""Names of all systems: what the command line offers, what tables print, and what the paper calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hepdata.errors import InputError, nearest_name

Family = Literal["baseline", "transformer", "graph", "kernel", "hept", "ablation"]


@dataclass(frozen=True)
class System:
    """One line of the catalog.

    Attributes:
        name: What `model` is set to.
        label: What the paper's tables call it.
        family: Which part of the tables it stands in.
        summary: What it does, in a line.
        has_static_graph: Whether it needs a neighbour graph of the input, built before the network runs.
    """

    name: str
    label: str
    family: Family
    summary: str
    has_static_graph: bool = False


CATALOG: tuple[System, ...] = (
    System("random", "Random", "baseline", "untrained HEPT (tracking), random scores (pileup)"),
    System("reformer", "Reformer", "transformer", "angular LSH, tied normalised keys, neighbouring chunks"),
    System("smyrf", "SMYRF", "transformer", "asymmetric E²LSH, balanced clusters, OR-only"),
    System("hyperattn", "HyperAttn", "transformer", "sorted hyperplane LSH once, plus sampled keys"),
    System("performer", "Performer", "transformer", "positive orthogonal random features"),
    System("flt", "FLT", "transformer", "Performer with Fourier features of a relative position"),
    System("scatterbrain", "ScatterBrain", "transformer", "random features, made exact where hashing meets"),
    System("pointtrans", "PointTrans", "transformer", "vector attention over nearest neighbours", True),
    System("flatformer", "FlatFormer", "transformer", "equal groups along windows of the plane"),
    System("gcn", "GCN", "graph", "normalised sums over nearest neighbours", True),
    System("dgcnn", "DGCNN", "graph", "edge convolutions on graphs rebuilt from features"),
    System("gravnet", "GravNet", "graph", "weighted neighbours in a learned space"),
    System("gatedgnn", "GatedGNN", "graph", "messages through gated recurrent units", True),
    System("performer-khept", "Performer-k_HEPT", "kernel", "Performer with the kernel of HEPT"),
    System("smyrf-khept", "SMYRF-k_HEPT", "kernel", "SMYRF with the kernel of HEPT"),
    System("flatformer-khept", "FlatFormer-k_HEPT", "kernel", "FlatFormer with the kernel of HEPT"),
    System("hept", "HEPT", "hept", "OR & AND LSH with coordinates as AND codes"),
    System("hept-dot", "HEPT w/o k_HEPT", "ablation", "HEPT with exp(q·k) and a positional encoding"),
    System("or-only", "OR-only LSH", "ablation", "no AND codes"),
    System("or-only-tied", "OR-only LSH*", "ablation", "no AND codes, queries tied to keys"),
    System("or-and", "OR & AND LSH", "ablation", "AND codes of queries and keys, not of coordinates"),
    System("or-and-tied", "OR & AND LSH*", "ablation", "the same, queries tied to keys"),
    System("exact", "Full attention", "baseline", "all pairs: the limit that the others approximate"),
    System("mlp", "MLP", "baseline", "every point by itself"),
)

NAMES = tuple(system.name for system in CATALOG)


def find_system(name: str) -> System:
    """The line of a name.

    Raises:
        InputError: There is no such system.
    """
    for system in CATALOG:
        if system.name == name:
            return system
    raise InputError(
        f"model {name!r}",
        found="no system of this name",
        expected="a known system",
        remedy=nearest_name(name, list(NAMES)),
    )
