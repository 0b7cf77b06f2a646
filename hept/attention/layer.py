"""HEPT attention (paper, Sec. 4 and Appendix C): hidden features and coordinates enter, new features leave.

    q = [W_Q x ‖ √(2ω) ρ]      k = [W_K x ‖ √(2ω) ρ]      v = W_V x

    out_u = Σ_i Σ_w exp(−½‖q_u − k_w‖²) v_w  /  Σ_i Σ_w exp(−½‖q_u − k_w‖²)

with w over the keys in the block of u in table i: one sum over the tables, and one normalisation.

Axes: N points, B clouds, H heads, C tables, P coordinates after lifting angles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from hept.attention.backends import Backend, find_backend, needs_grid
from hept.attention.blocks import cut_into_blocks
from hept.attention.clouds import Clouds
from hept.attention.distances import choose_step, reach_of_clouds
from hept.attention.geometry import Geometry
from hept.attention.periodic import lift_periodic
from hept.attention.rows import Layout, Rows
from hept.attention.tables import HashTables

# ω = Σ exp(min(Σ w, 50)) over so many terms a coordinate, as in the published weights.
TERMS_OF_OMEGA = 10

Kernel = Literal["gaussian", "dot"]


class HEPTAttention(nn.Module):
    """Multi-head attention inside blocks of points that OR & AND hashing has put side by side.

    The rows of the paper's ablation are settings: `kernel="dot"` for the standard kernel exp(q·k);
    `and_coords=()` for OR-only hashing, and with `n_hidden_codes=2` for OR & AND of hidden features;
    `tied_qk=True` for the rows with a star.

    Args:
        hidden_dim: Width of the features that enter and leave; each head has as many dimensions.
        coords_dim: Number of coordinates ρ of a point.
        n_heads: Attention heads.
        block_size: Points of a block.
        n_tables: OR tables, m₁.
        n_regions: Product of the numbers of AND buckets, G.
        and_coords: Which coordinates feed the AND codes, one code each.
        n_hidden_codes: Further AND codes, from projections of queries and keys.
        periods: Period by coordinate for those that are angles, such as {1: 2π}.
        kernel: "gaussian" exp(−½‖q−k‖²) with coordinates, or "dot" exp(q·k/√d) without.
        tied_qk: Whether queries are keys.
        backend: How blocks are computed, see `hept.attention.backends`; all give the same numbers.

    Raises:
        ValueError: For settings that fit no cloud.
    """

    omega_terms: Tensor

    def __init__(
        self,
        hidden_dim: int,
        coords_dim: int,
        *,
        n_heads: int = 8,
        block_size: int = 100,
        n_tables: int = 3,
        n_regions: float = 150,
        and_coords: Sequence[int] = (0, 1),
        n_hidden_codes: int = 0,
        periods: Mapping[int, float] | None = None,
        kernel: Kernel = "gaussian",
        tied_qk: bool = False,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        periods = dict(periods or {})
        _check_settings(coords_dim, and_coords, periods, kernel, n_regions)
        _check_positive(hidden_dim=hidden_dim, n_heads=n_heads, block_size=block_size, n_tables=n_tables)
        self.n_heads, self.block_size, self.kernel = n_heads, block_size, kernel
        self.attend, self.backend = find_backend(backend), backend
        self.periods = periods
        width = n_heads * hidden_dim
        self.w_q = nn.Linear(hidden_dim, width, bias=False)
        self.w_k = None if tied_qk else nn.Linear(hidden_dim, width, bias=False)
        self.w_v = nn.Linear(hidden_dim, width, bias=False)
        self.out_linear = nn.Linear(width, hidden_dim)

        self.omega_of_coord = _share_omega(coords_dim, periods) if kernel == "gaussian" else ()
        n_omega = max(self.omega_of_coord, default=-1) + 1
        self.register_parameter("omega_terms", _draw_omega_terms(n_heads, hidden_dim, n_omega))
        self.tables = HashTables(
            hidden_dim + (len(self.omega_of_coord) if kernel == "gaussian" else 2),
            n_heads=n_heads,
            n_tables=n_tables,
            n_regions=n_regions,
            and_coords=[column % coords_dim for column in and_coords],
            n_hidden_codes=n_hidden_codes,
            periods=periods,
        )

    def measure(self, coords: Tensor, clouds: Clouds) -> Geometry:
        """What layers with the same coordinates, blocks and angles share; see `forward`."""
        with torch.autocast(coords.device.type, enabled=False):
            return Geometry(
                cut_into_blocks(clouds, self.block_size),
                self.tables.rank_coords(coords, clouds),
                lift_periodic(coords, self.periods) if self.kernel == "gaussian" else None,
            )

    def can_share(self, other: nn.Module) -> bool:
        """Whether the geometry of one attention is that of the other."""
        return isinstance(other, HEPTAttention) and all(
            (
                self.block_size == other.block_size,
                self.periods == other.periods,
                self.kernel == other.kernel,
                self.tables.and_coords == other.tables.and_coords,
            )
        )

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds, geometry: Geometry | None = None) -> Tensor:
        """Attend within clouds.

        Args:
            x: (N, hidden_dim).
            coords: (N, coords_dim).
            clouds: Which points belong together.
            geometry: What `measure` returns for these coordinates and clouds, where it is known already.

        Returns:
            (N, hidden_dim).
        """
        if x.shape[0] == 0:
            return x
        value = self._project(self.w_v, x)
        # Half precision would scramble hashes and distances; values and the linear layers around stand it.
        with torch.autocast(x.device.type, enabled=False):
            geometry = geometry or self.measure(coords, clouds)
            query, key = self._query_and_key(x.to(coords.dtype), clouds)
            scale = (2 * self.omega()).sqrt().to(coords.dtype) if self.kernel == "gaussian" else None
            place = self._place(scale, geometry)
            query_order, key_order = self.tables(query, key, geometry.ranks, clouds, place)
            # The same for a model that is in half precision itself: its sums would be 0 or infinite.
            dtype = torch.promote_types(query.dtype, torch.float32)
            at = place.to(dtype) if place is not None else None
            rows = Rows(query.to(dtype), key.to(dtype), value.to(dtype), at)
            if needs_grid(self.backend, rows):
                rows = replace(rows, step=self._step(scale, geometry, clouds))
            out = self.attend(rows, Layout(query_order, key_order, geometry.blocks))
        return self.out_linear(out.to(value.dtype).movedim(0, 1).flatten(1))  # type: ignore[no-any-return]

    def omega(self) -> Tensor:
        """The weight ω > 0 of the squared distance in each coordinate: (H, P)."""
        omega = self.omega_terms.sum(1).clamp(max=50).exp().sum(-1)
        return torch.stack([omega.select(1, i) for i in self.omega_of_coord], 1)

    def _query_and_key(self, x: Tensor, clouds: Clouds) -> tuple[Tensor, Tensor]:
        """(H, N, hidden_dim) twice, or lifted for the standard kernel."""
        query = self._project(self.w_q, x)
        key = query if self.w_k is None else self._project(self.w_k, x)
        return _lift_dot(query, key, clouds) if self.kernel == "dot" else (query, key)

    def _place(self, scale: Tensor | None, geometry: Geometry) -> Tensor | None:
        """√(2ω)ρ (H, P, N) from √(2ω) (H, P)."""
        if scale is None or geometry.lifted is None:
            return None
        if geometry.lifted.device.type != "cpu":
            # Kernels gather the coordinates of a point side by side.
            return (scale.unsqueeze(1) * geometry.lifted).mT
        # One coordinate of all points is one stretch of memory, which products with few columns want.
        return scale.unsqueeze(-1) * geometry.lifted.mT.contiguous()

    @torch.no_grad()
    def _step(self, scale: Tensor | None, geometry: Geometry, clouds: Clouds) -> Tensor | None:
        """The step of the grid on which distances are computed."""
        if scale is None or geometry.lifted is None:
            return None
        reach = scale.unsqueeze(1) * reach_of_clouds(geometry.lifted, clouds)  # (H, B, P)
        return choose_step(reach.amax(-1), geometry.lifted.shape[1], clouds)

    def _project(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """W x of all heads, each in one stretch of memory: (H, N, hidden_dim)."""
        weight = linear.weight.view(self.n_heads, x.shape[1], x.shape[1])
        return torch.bmm(x.expand(self.n_heads, -1, -1), weight.mT)


def _lift_dot(query: Tensor, key: Tensor, clouds: Clouds) -> tuple[Tensor, Tensor]:
    """F(q) and G(k) with exp(−½‖F−G‖²) ∝ exp(q·k/√d), so that one code serves both kernels.

    F = [q, √(M²−q²), 0] and G = [k, 0, √(M²−k²)] (paper, Sec. 4.1), M² being the largest square in the cloud;
    a factor that all keys of a query share falls out of the normalisation.
    """
    scale = query.shape[-1] ** -0.25
    query, key = query * scale, key * scale
    lifted = []
    for rows in (query, key):
        square = rows.square().sum(-1)  # (H, N)
        index = clouds.index.expand(square.shape)
        largest = square.new_zeros(square.shape[0], clouds.n_clouds)
        largest = largest.scatter_reduce(1, index, square.detach(), "amax")
        # A little more than the largest, where the root would have no finite slope.
        lifted.append((1.01 * largest.gather(1, index) + 1e-6 - square).sqrt().unsqueeze(-1))
    zero = torch.zeros_like(lifted[0])
    return torch.cat([query, lifted[0], zero], -1), torch.cat([key, zero, lifted[1]], -1)


def _draw_omega_terms(n_heads: int, hidden_dim: int, n_omega: int) -> nn.Parameter | None:
    """Random w of ω = Σ exp(Σ w) as a linear layer of that many inputs would have them; none without ω."""
    bound = 1 / math.sqrt(max(1, n_omega * TERMS_OF_OMEGA))
    terms = torch.empty(n_heads, hidden_dim, n_omega, TERMS_OF_OMEGA).uniform_(-bound, bound)
    return nn.Parameter(terms) if n_omega else None


def _share_omega(coords_dim: int, periods: Mapping[int, float]) -> tuple[int, ...]:
    """Which ω each coordinate uses, after angles were lifted to two.

    The first two coordinates, η and φ, share one, so that distances in their plane stay round.
    """
    shared = (0, *range(coords_dim - 1)) if coords_dim > 1 else (0,) * coords_dim
    return tuple(omega for column, omega in enumerate(shared) for _ in range(2 if column in periods else 1))


def _check_positive(**settings: int) -> None:
    for name, value in settings.items():
        if value < 1:
            raise ValueError(f"{name}: got {value}, need at least 1")


def _check_settings(
    coords_dim: int, and_coords: Sequence[int], periods: Mapping[int, float], kernel: str, n_regions: float
) -> None:
    if kernel not in ("gaussian", "dot"):
        raise ValueError(f"kernel: got {kernel!r}, need 'gaussian' or 'dot'")
    for column in and_coords:
        if not -coords_dim <= column < coords_dim:
            raise ValueError(f"and_coords: got column {column}, need columns of the {coords_dim} coordinates")
    for column, period in periods.items():
        if not 0 <= column < coords_dim or not period > 0:
            raise ValueError(
                f"periods: got {{{column}: {period}}}, need positive periods of the {coords_dim} coordinates"
            )
    if n_regions < 1:
        raise ValueError(f"n_regions: got {n_regions}, need at least 1")
