"""The table of all systems: name in settings, label in the paper, and the function that makes each.

A new system is a file in this folder with such a function, and a line here. This module imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Literal

from hepdata.errors import InputError, nearest_name

Family = Literal["baseline", "transformer", "graph", "kernel", "hept", "ablation", "own"]

# Packages that bring an attention name it in this group of entry points.
ENTRY_POINTS = "hept.attentions"


@dataclass(frozen=True)
class System:
    """One line of the catalog.

    Attributes:
        name: Name in settings and on the command line.
        label: Label in the paper's tables.
        family: Section of the paper's tables.
        summary: What it does, in one line.
        source: File of this folder and its function, such as "smyrf:make_smyrf". For a graph network the
            function makes layers from the frame, otherwise attention from the frame and the free width. For a
            user's own system the module and the class, such as "my_package.attention:MyAttention".
        options: Further arguments of this function.
        has_static_graph: Whether it needs a neighbour graph of the input, built before the network runs.
    """

    name: str
    label: str
    family: Family
    summary: str
    source: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    has_static_graph: bool = False


GAUSS = {"kernel": "gauss"}

# fmt: off
CATALOG: tuple[System, ...] = (
    System("random", "Random", "baseline", "untrained HEPT (tracking), random scores (pileup)"),
    System("reformer", "Reformer", "transformer", "angular LSH, tied normalised keys, neighbouring chunks",
           "reformer:make_reformer"),
    System("smyrf", "SMYRF", "transformer", "asymmetric E²LSH, balanced clusters, OR-only",
           "smyrf:make_smyrf"),
    System("hyperattn", "HyperAttn", "transformer", "sorted hyperplane LSH once, plus sampled keys",
           "hyper_attention:make_hyper"),
    System("performer", "Performer", "transformer", "positive orthogonal random features",
           "performer:make_performer"),
    System("flt", "FLT", "transformer", "Performer with Fourier features of a relative position",
           "flt:make_flt"),
    System("scatterbrain", "ScatterBrain", "transformer", "random features, exact inside hash blocks",
           "scatterbrain:make_scatterbrain"),
    System("pointtrans", "PointTrans", "transformer", "vector attention over nearest neighbours",
           "point_transformer:make_point_transformer", has_static_graph=True),
    System("flatformer", "FlatFormer", "transformer", "equal groups along windows of the plane",
           "flatformer:make_flatformer"),
    System("gcn", "GCN", "graph", "normalised sums over nearest neighbours",
           "gcn:make_gcn", has_static_graph=True),
    System("dgcnn", "DGCNN", "graph", "edge convolutions on graphs rebuilt from features",
           "dgcnn:make_dgcnn"),
    System("gravnet", "GravNet", "graph", "weighted neighbours in a learned space", "gravnet:make_gravnet"),
    System("gatedgnn", "GatedGNN", "graph", "messages through gated recurrent units",
           "gated_gnn:make_gated_gnn", has_static_graph=True),
    System("performer-khept", "Performer-k_HEPT", "kernel", "Performer with the kernel of HEPT",
           "performer:make_performer", GAUSS),
    System("smyrf-khept", "SMYRF-k_HEPT", "kernel", "SMYRF with the kernel of HEPT",
           "smyrf:make_smyrf", GAUSS),
    System("flatformer-khept", "FlatFormer-k_HEPT", "kernel", "FlatFormer with the kernel of HEPT",
           "flatformer:make_flatformer", GAUSS),
    System("hept", "HEPT", "hept", "OR & AND LSH with coordinates as AND codes"),
    System("hept-dot", "HEPT w/o k_HEPT", "ablation", "HEPT with exp(q·k) and a positional encoding",
           "hept_variants:make_hept_dot"),
    System("or-only", "OR-only LSH", "ablation", "no AND codes",
           "hept_variants:make_hept", {"and_coords": ()}),
    System("or-only-tied", "OR-only LSH*", "ablation", "no AND codes, queries tied to keys",
           "hept_variants:make_hept", {"and_coords": (), "tied_qk": True}),
    System("or-and", "OR & AND LSH", "ablation", "AND codes of queries and keys, not of coordinates",
           "hept_variants:make_hept", {"and_coords": (), "n_hidden_codes": 2}),
    System("or-and-tied", "OR & AND LSH*", "ablation", "the same, queries tied to keys",
           "hept_variants:make_hept", {"and_coords": (), "n_hidden_codes": 2, "tied_qk": True}),
    System("exact", "Full attention", "baseline", "all pairs: the limit that the others approximate",
           "exact:make_exact"),
    System("mlp", "MLP", "baseline", "every point independently"),
)
# fmt: on

NAMES = tuple(system.name for system in CATALOG)


def find_system(name: str) -> System:
    """Find a system by its name in the catalog, by that of an entry point, or as `module:Class`.

    Raises:
        InputError: There is no such system.
    """
    for system in CATALOG:
        if system.name == name:
            return system
    own = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}
    if name in own or ":" in name:
        return System(name, name, "own", "attention of another package", own.get(name, name))
    raise InputError(
        f"model {name!r}",
        found="no system of this name",
        expected="a known system, or module:Class for one of your own",
        remedy=nearest_name(name, [*NAMES, *own]),
    )
