"""HEPT attention (paper, Sec. 4 and Appendix C): hidden features and coordinates enter, new features leave.

    q = [W_Q x ‖ √(2ω) ρ]      k = [W_K x ‖ √(2ω) ρ]      v = W_V x

    out_u = Σ_i Σ_w exp(−½‖q_u − k_w‖²) v_w  /  Σ_i Σ_w exp(−½‖q_u − k_w‖²)

with w over the keys in the block of u in table i: one sum over the tables, and one normalisation. Block k of
the sorted queries meets block k of the sorted keys. In the order of the computation:

    1  HEPTAttention     projections, scaled coordinates, output
    2  HashTables        table i sorts queries and keys by the tuple (AND codes, base hash value):
                           base   L⁽ⁱ¹⁾ = a·z, E²LSH without buckets, of the query or key z
                           codes  quantile buckets of coordinates, which query and key of a point share,
                                  so that they stay aligned; by option also of projections of z
    3  cut_into_blocks   sorted clouds are cut into blocks
    4  kernels/          the two sums inside blocks; `kernels/plain.py` is the reference in torch

The paper's "AND hash code" is the whole tuple, and its "auxiliary" codes are the AND codes here; m₁ is
`n_tables`, G is `n_regions`. As in the authors' code, and other than in the paper's text, codes are quantiles
of η and φ themselves instead of random projections of ρ. Angles on a circle are an addition of ours.

Axes: N points, B clouds, H heads, C tables, D = M + P dimensions of a query: M hidden ones and P coordinates
(an angle counts as two), A AND codes, K blocks, S slots of a block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from hept.attention import N_REGIONS
from hept.attention.clouds import Clouds, count_ended
from hept.attention.kernels import Backend, find_backend
from hept.attention.kernels.operands import Blocks, Layout, Operands
from hept.attention.kernels.triton_sort import order_both
from hept.attention.ranks import joint_rank_in_cloud, rank_in_cloud, sort_by
from hept.devices.precision import full_precision
from hept.devices.tracing import is_exporting
from hept.devices.triton_support import can_run_triton

# Number of terms per coordinate in ω = Σ exp(min(Σ w, 50)), as in the published weights.
TERMS_OF_OMEGA = 10
# Columns of the coordinates that feed AND codes: η and φ.
AND_COORDS = (0, 1)

Kernel = Literal["gaussian", "dot"]


@dataclass(frozen=True)
class CoordRank:
    """Ranks of the points along one coordinate.

    Attributes:
        rank: (N,) int64, the rank of each point in its cloud.
        turn: (N,) the angle in turns, in [0, 1); None if the coordinate is not an angle.
    """

    rank: Tensor
    turn: Tensor | None


@dataclass(frozen=True)
class Geometry:
    """Quantities that depend only on coordinates and clouds: computed once per forward pass for all layers.

    Attributes:
        blocks: Partition of the sorted clouds into blocks.
        ranks: Ranks along the coordinates that feed AND codes.
        lifted: (N, P) coordinates, each angle as a point on a circle; None if the kernel does not use them.
    """

    blocks: Blocks
    ranks: tuple[CoordRank, ...]
    lifted: Tensor | None


class HEPTAttention(nn.Module):
    """Multi-head attention inside blocks of points that OR & AND hashing has sorted next to each other.

    The rows of the paper's ablation are settings: `kernel="dot"` for the standard kernel exp(q·k/√d);
    `and_coords=()` for OR-only hashing, and with `n_hidden_codes=2` for OR & AND of hidden features;
    `tied_qk=True` for the rows with a star.

    Args:
        hidden_dim: Width of the input and output features, and of each head.
        coords_dim: Number of coordinates ρ of a point.
        n_heads: Attention heads.
        block_size: Points per block.
        n_tables: OR tables, m₁.
        n_regions: Product of the numbers of AND buckets, G.
        and_coords: Which coordinates feed the AND codes, one code each.
        n_hidden_codes: Further AND codes, from projections of queries and keys.
        periods: Periods of the coordinates that are angles, by column, such as {1: 2π}.
        kernel: "gaussian" exp(−½‖q−k‖²) with coordinates, or "dot" exp(q·k/√d) without.
        tied_qk: Whether queries and keys share one projection.
        backend: How blocks are computed, see `hept.attention.kernels`; all give the same numbers.

    Raises:
        ValueError: A setting is out of range.
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
        n_regions: float = N_REGIONS,
        and_coords: Sequence[int] = AND_COORDS,
        n_hidden_codes: int = 0,
        periods: Mapping[int, float] | None = None,
        kernel: Kernel = "gaussian",
        tied_qk: bool = False,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        periods = dict(periods or {})
        _check_settings(coords_dim, and_coords, periods, kernel)
        sizes = {"hidden_dim": hidden_dim, "n_heads": n_heads, "block_size": block_size, "n_tables": n_tables}
        _check_positive(**sizes, n_regions=n_regions)
        self.n_heads, self.block_size, self.kernel = n_heads, block_size, kernel
        self.attend, self.periods = find_backend(backend), periods
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
        """Compute what layers with the same coordinates, block size and periods share; see `forward`."""
        with full_precision(coords.device):
            return Geometry(
                cut_into_blocks(clouds, self.block_size),
                self.tables.rank_coords(coords, clouds),
                lift_periodic(coords, self.periods) if self.kernel == "gaussian" else None,
            )

    def can_share(self, other: nn.Module) -> bool:
        """Whether both attentions can use the same `Geometry`."""
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
            geometry: The result of `measure` for these coordinates and clouds, if already computed.

        Returns:
            (N, hidden_dim).
        """
        if x.shape[0] == 0:
            # Gradients of zero instead of none: several processes wait for that of every parameter.
            return x + sum(each.sum() for each in self.parameters())
        # Half precision and TF32 would scramble hashes and distances.
        with full_precision(x.device):
            x = x.to(coords.dtype)
            geometry = geometry or self.measure(coords, clouds)
            query = self._project(self.w_q, x)
            key = query if self.w_k is None else self._project(self.w_k, x)
            value = self._project(self.w_v, x)
            if self.kernel == "dot":
                query, key = _lift_dot(query, key, clouds)
            scale = (2 * self.omega()).sqrt() if geometry.lifted is not None else None  # (H, P)
            scaled = self._scale(geometry, scale)
            hashes = self._hash_inputs(x, geometry, scale)
            query_order, key_order = self.tables(query, key, geometry.ranks, clouds, scaled, hashes)
            # A model in half precision also sums in float32: its own sums would underflow or overflow.
            dtype = torch.promote_types(query.dtype, torch.float32)
            scaled = scaled.to(dtype) if scaled is not None else None
            operands = Operands(query.to(dtype), key.to(dtype), value.to(dtype), scaled)
            out = self.attend(operands, Layout(query_order, key_order, geometry.blocks))
            return self.out_linear(out.to(value.dtype).movedim(0, 1).flatten(1))  # type: ignore[no-any-return]

    def omega(self) -> Tensor:
        """The weight ω > 0 of the squared distance in each coordinate: (H, P)."""
        omega = self.omega_terms.sum(1).clamp(max=50).exp().sum(-1)
        return torch.stack([omega.select(1, i) for i in self.omega_of_coord], 1)

    def _scale(self, geometry: Geometry, scale: Tensor | None) -> Tensor | None:
        """√(2ω)ρ: (H, P, N)."""
        if geometry.lifted is None or scale is None:
            return None
        scale = scale.to(geometry.lifted.dtype)
        if geometry.lifted.device.type != "cpu":
            # GPU kernels gather rows: the coordinates of a point must be contiguous. As a product with
            # diagonal matrices, the gradient of the scale is one product too.
            weight = torch.diag_embed(scale).flatten(0, 1)  # (H·P, P)
            rows: Tensor = nn.functional.linear(geometry.lifted, weight).view(-1, *scale.shape)  # (N, H, P)
            return rows.movedim(0, 2)
        # On a CPU, products with few columns are faster if each coordinate is contiguous over the points.
        return scale.unsqueeze(-1) * geometry.lifted.mT.contiguous()

    @torch.no_grad()
    def _hash_inputs(
        self, x: Tensor, geometry: Geometry, scale: Tensor | None
    ) -> tuple[Tensor, Tensor] | None:
        """Base hash values of queries and keys (H, C, N) straight from x; None for dot products.

        A hash a·[W x ‖ √(2ω) ρ] is linear in x and ρ, so one product gives those of all heads and tables; a
        GPU then reads x instead of all queries and keys. On a CPU the product is in double precision: sums in
        another order, as other runtimes and processors make them, then hardly ever give another sort.
        """
        if self.kernel == "dot":
            return None
        dtype = x.dtype
        x = x.double() if x.device.type == "cpu" else x
        alpha, n_heads, dim = self.tables.alpha.mT.to(x.dtype), self.n_heads, x.shape[1]  # (H, C, D)
        of_hidden, of_coords = torch.split(alpha, [dim, alpha.shape[2] - dim], 2)
        linears = (self.w_q, self.w_k or self.w_q)
        weights = [each.weight.to(x.dtype).view(n_heads, dim, dim) for each in linears]
        rows = torch.cat([of_hidden @ each for each in weights])  # (2·H, C, hidden_dim)
        if geometry.lifted is not None and scale is not None:
            rows = torch.cat([rows, (of_coords * scale.to(x.dtype).unsqueeze(1)).repeat(2, 1, 1)], 2)
            x = torch.cat([x, geometry.lifted.to(x.dtype)], 1)
        rows = rows.flatten(0, 1)
        # onnxruntime up to 1.25 cannot multiply by a transposed x in double precision.
        hashes = (x @ rows.mT).mT if is_exporting() else rows @ x.mT
        hashes = hashes.to(dtype).view(2, n_heads, -1, x.shape[0])
        return hashes[0], hashes[1]

    def _project(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """W x for all heads: (H, N, hidden_dim)."""
        if x.device.type != "cpu":
            # The heads of a point are contiguous: backward is one product, instead of one per head and a sum.
            return linear(x).unflatten(1, (self.n_heads, -1)).movedim(1, 0)  # type: ignore[no-any-return]
        # On a CPU the points of a head are contiguous.
        weight = linear.weight.view(self.n_heads, x.shape[1], x.shape[1])
        return torch.bmm(x.expand(self.n_heads, -1, -1), weight.mT)


class HashTables(nn.Module):
    """The random projections, bucket numbers and cuts of the C tables of H heads.

    Args:
        dim: Dimensions of queries and keys, D.
        n_heads: Attention heads.
        n_tables: OR tables, m₁.
        n_regions: Product of the numbers of buckets of all AND codes, G.
        and_coords: Coordinates that feed AND codes.
        n_hidden_codes: AND codes from projections of queries and keys.
        periods: Periods of the coordinates that are angles, by column; each table cuts the circle elsewhere.
    """

    alpha: Tensor  # (H, D, C)
    and_alpha: Tensor | None  # (H, D, C·A)
    regions: Tensor  # (C, A, H): coordinates, then projections
    cuts: Tensor | None  # (C, coordinates of AND codes, H)

    def __init__(
        self,
        dim: int,
        *,
        n_heads: int,
        n_tables: int,
        n_regions: float,
        and_coords: Sequence[int],
        n_hidden_codes: int,
        periods: Mapping[int, float],
    ) -> None:
        super().__init__()
        self.n_tables, self.n_regions, self.n_hidden_codes = n_tables, n_regions, n_hidden_codes
        self.and_coords, self.periods = tuple(and_coords), dict(periods)
        self.n_codes = len(self.and_coords) + n_hidden_codes
        self.register_buffer("alpha", torch.randn(n_heads, dim, n_tables))
        and_alpha = torch.randn(n_heads, dim, n_tables * n_hidden_codes) if n_hidden_codes else None
        self.register_buffer("and_alpha", and_alpha)
        self.register_buffer("regions", draw_buckets(n_regions, self.n_codes, n_tables, n_heads))
        is_cut = any(column in self.periods for column in self.and_coords)
        self.register_buffer("cuts", torch.rand(n_tables, len(self.and_coords), n_heads) if is_cut else None)

    @torch.no_grad()
    def forward(
        self,
        query: Tensor,
        key: Tensor,
        ranks: Sequence[CoordRank],
        clouds: Clouds,
        coords: Tensor | None = None,
        hashes: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Order queries and keys in each table and head.

        Args:
            query: (H, N, M), the first of the D dimensions.
            key: (H, N, M); the same object as `query` if they are tied.
            ranks: The result of `rank_coords`.
            clouds: Which points belong together.
            coords: (H, P, N), the dimensions that query and key of a point share.
            hashes: Base hash values (H, C, N) of queries and keys, if already computed.

        Returns:
            Two permutations of the points (C, H, N), in which each cloud stays contiguous.
        """
        q_base, k_base = hashes or (_hash(self.alpha, z, coords) for z in (query, key))
        if self._can_fuse(query, ranks, clouds):
            rank = torch.stack([each.rank for each in ranks])
            return order_both(
                q_base, k_base, rank, self._shifts(ranks, clouds), self.regions, clouds.index, clouds.sizes
            )
        q_codes = k_codes = self._codes_of_coords(ranks, clouds)
        if self.and_alpha is not None:
            q, k = (_hash(self.and_alpha, z, coords) for z in (query, key))
            hidden = self._codes_of_projections(q, k, clouds)
            q_codes, k_codes = q_codes + hidden[0], k_codes + hidden[1]
        query_order = self._sort(q_codes, q_base, clouds)
        return query_order, query_order if key is query else self._sort(k_codes, k_base, clouds)

    @torch.no_grad()
    def rank_coords(self, coords: Tensor, clouds: Clouds) -> tuple[CoordRank, ...]:
        """Rank the points along the coordinates (N, ·) that feed AND codes."""
        ranks = []
        for column in self.and_coords:
            coord = coords.select(1, column)
            turn = find_turn(coord, self.periods[column]) if column in self.periods else None
            ranks.append(CoordRank(rank_in_cloud(coord if turn is None else turn, clouds), turn))
        return tuple(ranks)

    def _can_fuse(self, query: Tensor, ranks: Sequence[CoordRank], clouds: Clouds) -> bool:
        """Whether one kernel can make the sort keys: on a GPU, from coordinates only, and within 63 bits."""
        is_plain = self.and_alpha is None and len(ranks) > 0 and query.device.type != "cpu"
        return is_plain and self._bound_codes(clouds) < 2**31 and can_run_triton(query)

    def _bound_codes(self, clouds: Clouds) -> int:
        """Upper bound of joined codes."""
        per_cloud: int = math.ceil(self.n_regions * 2**self.n_codes)
        return clouds.n_clouds * per_cloud

    def _sort(self, codes: Sequence[Tensor], base: Tensor, clouds: Clouds) -> Tensor:
        """The order (C, H, N) by codes (C, H, N) and base hash values (H, C, N)."""
        # Encode the tuple (cloud, last code, …, first code) as one mixed-radix number.
        joined = clouds.index.expand(self.n_tables, self.alpha.shape[0], -1)
        if clouds.is_single and codes:
            *codes, joined = codes
        for i in reversed(range(len(codes))):
            joined = joined * (self.regions.select(1, i).long() + 1).unsqueeze(-1) + codes[i]
        return sort_by(joined, base.movedim(1, 0), n_codes=self._bound_codes(clouds))

    def _shifts(self, ranks: Sequence[CoordRank], clouds: Clouds) -> Tensor | None:
        """Offset by which each table and head rotates the ranks of an angle: (A, C, H, B)."""
        if self.cuts is None:
            return None
        none = self.cuts.new_zeros(self.n_tables, self.cuts.shape[-1], clouds.n_clouds, dtype=torch.int64)
        shifts = [
            none if each.turn is None else count_before(each.turn, self.cuts.select(1, i), clouds)
            for i, each in enumerate(ranks)
        ]
        return torch.stack(shifts)

    def _codes_of_coords(self, ranks: Sequence[CoordRank], clouds: Clouds) -> list[Tensor]:
        """One (C, H, N) for each of `and_coords`."""
        codes, shifts = [], self._shifts(ranks, clouds)
        for i, (rank, turn) in enumerate((each.rank, each.turn) for each in ranks):
            if turn is not None and shifts is not None:
                # Ranks counted from each table's cut: (C, H, N).
                rank = torch.remainder(
                    rank - clouds.spread(shifts[i]), clouds.spread(clouds.sizes).clamp(min=1)
                )
            codes.append(find_bucket(rank, clouds.sizes, self.regions.select(1, i), clouds))
        return codes

    def _codes_of_projections(
        self, query: Tensor, key: Tensor, clouds: Clouds
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Codes (C, H, N) of queries and keys (H, C·A, N), from their joint quantiles."""
        q, k = (torch.unflatten(z, 1, (self.n_tables, -1)) for z in (query, key))
        ranks = joint_rank_in_cloud(q, k, clouds)  # (H, C, A, N) twice
        buckets = self.regions.narrow(1, len(self.and_coords), self.n_hidden_codes)
        q_codes, k_codes = (
            [
                find_bucket(rank.select(2, i).movedim(1, 0), 2 * clouds.sizes, buckets.select(1, i), clouds)
                for i in range(self.n_hidden_codes)
            ]
            for rank in ranks
        )
        return q_codes, k_codes


def cut_into_blocks(clouds: Clouds, block_size: int) -> Blocks:
    """Cut the concatenated, sorted clouds into blocks of at most `block_size` points.

    No block holds points of two clouds. A cloud of n points has ⌈n/S⌉ blocks whose lengths differ by at most
    one, so that no point ends up in a nearly empty last block.
    """
    device, size = clouds.offsets.device, block_size
    # Reading Σ⌈n/S⌉ would synchronise; the bound ⌊N/S⌋ + B follows from shapes. Surplus blocks stay empty.
    n_blocks = clouds.n_points // size + clouds.n_clouds
    if clouds.is_single:
        n_blocks = (clouds.n_points + size - 1) // size
    per_cloud = (clouds.sizes + size - 1) // size  # (B,)
    last = per_cloud.cumsum(0)
    first = last - per_cloud

    block = torch.arange(n_blocks, device=device)
    cloud = count_ended(last, n_blocks).clamp(max=clouds.n_clouds - 1)  # (K,)
    i = block - first.index_select(0, cloud)
    start = _block_start(clouds, per_cloud, cloud, i)
    end = torch.where(block < per_cloud.sum(), _block_start(clouds, per_cloud, cloud, i + 1), start)
    offset = torch.arange(size, device=device)
    is_filled = offset < (end - start).unsqueeze(1)  # (K, S)
    position = (start.unsqueeze(1) + offset).minimum((end - 1).maximum(start).unsqueeze(1))
    position = position.clamp(max=max(clouds.n_points - 1, 0))

    # The block of the point of rank r: the largest i with ⌊i·n/blocks⌋ ≤ r.
    position_of_point = torch.arange(clouds.n_points, device=device)
    rank = position_of_point - clouds.spread(clouds.offsets)
    mine = ((rank + 1) * clouds.spread(per_cloud) - 1) // clouds.spread(clouds.sizes).clamp(min=1)
    begin = _block_start(clouds, per_cloud, clouds.index, mine)
    slot = (clouds.spread(first) + mine) * size + position_of_point - begin
    return Blocks(position, is_filled, slot)


def _block_start(clouds: Clouds, per_cloud: Tensor, cloud: Tensor, i: Tensor) -> Tensor:
    """Sorted position at which the i-th block of a cloud begins: ⌊i·n/blocks⌋ after the cloud's first."""
    offset, n, n_blocks = (of.index_select(0, cloud) for of in (clouds.offsets, clouds.sizes, per_cloud))
    return offset + i * n // n_blocks.clamp(min=1)


def draw_buckets(n_regions: float, n_codes: int, n_tables: int, n_heads: int) -> Tensor:
    """Draw non-integer numbers of buckets B (C, A, H) whose product over the codes is `n_regions`.

    Different numbers shift the borders of the buckets from table to table, so that a pair of close points is
    rarely separated in all tables (paper, end of "Obtaining AND Hash Code").
    """
    shape = (n_tables, n_codes, n_heads)
    if n_codes == 0:
        return torch.ones(shape)
    mean = n_regions ** (1 / n_codes)
    low = min(2.0, mean)
    buckets = low + torch.rand(shape) * 2 * (mean - low)
    excess = buckets.prod(1, keepdim=True) / n_regions
    return torch.div(buckets, excess ** (1 / n_codes))


def find_bucket(rank: Tensor, n_ranks: Tensor, buckets: Tensor, clouds: Clouds) -> Tensor:
    """Quantile bucket ⌊rank / ⌈n/B⌉⌋ of each point, below ⌊B⌋ + 1.

    Args:
        rank: (C, H, N) or (N,), rank of the point in its cloud.
        n_ranks: (n_clouds,) number of ranked items in each cloud.
        buckets: (C, H) numbers of buckets.
        clouds: The clouds of the N points.

    Returns:
        (C, H, N) int64.
    """
    # The published weights were trained with bucket sizes ⌈n · (1/B)⌉ computed in float32.
    per_bucket = torch.ceil(n_ranks.float() * buckets.float().reciprocal().unsqueeze(-1))  # (C, H, n_clouds)
    if rank.device.type != "cpu":
        return rank // clouds.spread(per_bucket.long().clamp(min=1))
    # On a CPU, integer division is ten times slower. Adding ½ keeps rounding errors away from bucket borders.
    per_rank = clouds.spread(per_bucket.double().clamp(min=1).reciprocal())
    return ((rank.double() + 0.5) * per_rank).long()


def count_before(turn: Tensor, cut: Tensor, clouds: Clouds) -> Tensor:
    """Count the points of each cloud with `turn` (N,) below the cuts (C, H): (C, H, B) int64."""
    is_before = (turn < cut.unsqueeze(-1)).long()  # (C, H, N)
    n_before = is_before.new_zeros(*cut.shape, clouds.n_clouds)
    return n_before.scatter_add_(-1, clouds.index.expand(is_before.shape), is_before)


def lift_periodic(coords: Tensor, periods: Mapping[int, float]) -> Tensor:
    """Replace each periodic coordinate by its two Cartesian coordinates on a circle of that circumference.

    The distance between two points becomes a chord. For close points it equals the arc, also across the seam;
    it is smooth at the antipode; and it is Euclidean, as hashing by projection requires.

    Args:
        coords: (N, ·).
        periods: Period by column, such as {1: 2π}.

    Returns:
        (N, P), in the order of the columns.
    """
    if not periods:
        return coords
    columns = []
    for column in range(coords.shape[1]):
        x = coords.narrow(1, column, 1)
        if column in periods:
            radius = periods[column] / (2 * math.pi)
            columns += [radius * torch.cos(x / radius), radius * torch.sin(x / radius)]
        else:
            columns.append(x)
    return torch.cat(columns, -1)


def find_turn(coord: Tensor, period: float) -> Tensor:
    """Convert a periodic coordinate to turns, in [0, 1)."""
    turn = torch.remainder(coord / period, 1.0)
    # The remainder of a tiny negative angle rounds to 1.
    return torch.where(turn < 1, turn, 0.0)


def _hash(directions: Tensor, z: Tensor, coords: Tensor | None) -> Tensor:
    """Project queries or keys (H, N, M), with their coordinates, onto directions (H, D, ·): (H, ·, N)."""
    # Few long rows take half the time of many short ones.
    rows = directions.mT.contiguous()
    hashed = rows.narrow(2, 0, z.shape[-1]) @ z.mT
    return hashed if coords is None else hashed.baddbmm(rows.narrow(2, z.shape[-1], coords.shape[1]), coords)


def _lift_dot(query: Tensor, key: Tensor, clouds: Clouds) -> tuple[Tensor, Tensor]:
    """F(q) and G(k) with exp(−½‖F−G‖²) ∝ exp(q·k/√d), so that one code serves both kernels.

    F = [q, √(M²−q²), 0] and G = [k, 0, √(M²−k²)] (paper, Sec. 4.1), where M² is the largest square in the
    cloud. A factor common to all keys of a query cancels in the normalisation.
    """
    scale = query.shape[-1] ** -0.25
    query, key = query * scale, key * scale
    lifted = []
    for rows in (query, key):
        square = rows.square().sum(-1)  # (H, N)
        index = clouds.index.expand(square.shape)
        largest = square.new_zeros(square.shape[0], clouds.n_clouds)
        largest = largest.scatter_reduce(1, index, square.detach(), "amax")
        # Slightly above the largest square: the square root has an infinite slope at 0.
        lifted.append((1.01 * largest.gather(1, index) + 1e-6 - square).sqrt().unsqueeze(-1))
    zero = torch.zeros_like(lifted[0])
    return torch.cat([query, lifted[0], zero], -1), torch.cat([key, zero, lifted[1]], -1)


def _draw_omega_terms(n_heads: int, hidden_dim: int, n_omega: int) -> nn.Parameter | None:
    """Draw w of ω = Σ exp(Σ w) as the weights of a linear layer are drawn; None without ω."""
    bound = 1 / math.sqrt(max(1, n_omega * TERMS_OF_OMEGA))
    terms = torch.empty(n_heads, hidden_dim, n_omega, TERMS_OF_OMEGA).uniform_(-bound, bound)
    return nn.Parameter(terms) if n_omega else None


def _share_omega(coords_dim: int, periods: Mapping[int, float]) -> tuple[int, ...]:
    """Index of the ω of each coordinate; an angle counts as two coordinates.

    The first two coordinates, η and φ, share one ω, so that distances in their plane are isotropic.
    """
    shared = (0, *range(coords_dim - 1)) if coords_dim > 1 else (0,) * coords_dim
    return tuple(omega for column, omega in enumerate(shared) for _ in range(2 if column in periods else 1))


def _check_positive(**settings: float) -> None:
    for name, value in settings.items():
        if value < 1:
            raise ValueError(f"{name}: got {value}, need at least 1")


def _check_settings(
    coords_dim: int, and_coords: Sequence[int], periods: Mapping[int, float], kernel: str
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
