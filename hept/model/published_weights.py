"""The authors' published weights: their file enters, a `HEPT` leaves."""

from __future__ import annotations

import zipfile
from pathlib import Path

import torch
from torch import Tensor

from hepdata.errors import InputError
from hept.model.transformer import HEPT

EXPECTED = "the authors' checkpoint of 88 tensors"
REMEDY = "give the file of the published Tracking weights"


def load_published(path: str | Path) -> HEPT:
    """Load the authors' Tracking checkpoint into a model in evaluation mode.

    Raises:
        InputError: The file is not that checkpoint.
    """
    state = _read(Path(path))
    try:
        model = build_published(state)
    except KeyError as error:
        raise InputError(path, found=f"no tensor {error}", expected=EXPECTED, remedy=REMEDY) from error
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        found = f"tensors of other shapes ({' '.join(str(error).split())[:200]})"
        raise InputError(path, found=found, expected=EXPECTED, remedy=REMEDY) from error
    return model.eval()


def build_published(state: dict[str, Tensor], *, dropout: float = 0.1) -> HEPT:
    """Our model with tensors of the authors' names and shapes."""
    hidden, n_features = state["feat_encoder.0.weight"].shape
    n_layers = len({name.split(".")[1] for name in state if name.startswith("attns.")})
    n_tables, n_codes, n_heads = state["regions"].shape
    model = HEPT(
        n_features,
        state["attns.0.attn.e2lsh.alpha"].shape[1] - hidden,
        state["W.weight"].shape[0],
        n_layers=n_layers,
        hidden_dim=hidden,
        n_heads=n_heads,
        n_tables=n_tables,
        n_regions=state["regions"].prod(1).max().item(),
        and_coords=range(n_codes),
        dropout=dropout,
    )
    model.load_state_dict(_translate(state, n_layers, n_heads, hidden))
    return model


def _read(path: Path) -> dict[str, Tensor]:
    try:
        _check_zip(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # Unpickling a damaged file can raise anything. Only the first sentence of the message is useful.
        found = f"no readable checkpoint ({' '.join(str(error).split()).partition('. ')[0][:200]})"
        raise InputError(path, found=found, expected=EXPECTED, remedy=REMEDY) from error
    if not isinstance(state, dict) or "attns.0.attn.e2lsh.alpha" not in state or "regions" not in state:
        raise InputError(path, found="a file of another model", expected=EXPECTED, remedy=REMEDY)
    return dict(state)


def _check_zip(path: Path) -> None:
    """Compare a zip file's members with their checksums, which torch writes but does not check."""
    if not zipfile.is_zipfile(path):
        # The format of torch before 1.6 has no checksums.
        return
    with zipfile.ZipFile(path) as file:
        damaged = file.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of {damaged} does not match")


def _translate(state: dict[str, Tensor], n_layers: int, n_heads: int, hidden: int) -> dict[str, Tensor]:
    """Translate the authors' names and shapes to ours; the bias of `w_rpe` is unused and dropped."""
    ours = {"head.project.weight": state["W.weight"]}
    for layer in (0, 2):
        for kind in ("weight", "bias"):
            ours[f"encoder.{layer}.{kind}"] = state[f"feat_encoder.{layer}.{kind}"]
    for i in range(n_layers):
        theirs, block = f"attns.{i}", f"blocks.{i}"
        for name in ("w_q", "w_k", "w_v"):
            ours[f"{block}.attention.{name}.weight"] = state[f"{theirs}.{name}.weight"]
        terms = state[f"{theirs}.w_rpe.weight"]
        n_omega = state[f"{theirs}.attn.e2lsh.alpha"].shape[1] - hidden - 1
        ours[f"{block}.attention.omega_terms"] = terms.view(n_heads, hidden, n_omega, -1)
        ours[f"{block}.attention.tables.alpha"] = state[f"{theirs}.attn.e2lsh.alpha"]
        ours[f"{block}.attention.tables.regions"] = state["regions"]
        for kind in ("weight", "bias"):
            ours[f"{block}.attention.out_linear.{kind}"] = state[f"{theirs}.attn.out_linear.{kind}"]
            for part in ("norm1", "norm2", "ff.0", "ff.2"):
                ours[f"{block}.{part}.{kind}"] = state[f"{theirs}.{part}.{kind}"]
    # Our MLP is one sequence of (linear, norm, tanh) with a final linear layer.
    for kind in ("weight", "bias"):
        for j in range(5):
            ours[f"head.mlp.{3 * j}.{kind}"] = state[f"mlp_out.lins.{j}.{kind}"]
        for j in range(4):
            ours[f"head.mlp.{3 * j + 1}.{kind}"] = state[f"mlp_out.norms.{j}.{kind}"]
    return ours
