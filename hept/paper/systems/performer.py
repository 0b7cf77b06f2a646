"""Performer (Choromanski et al. 2020): exp(q·k) as an inner product of positive random features.

    exp(q·k) = E_w[exp(w·q − ½‖q‖²) · exp(w·k − ½‖k‖²)],  w ~ N(0, I), drawn orthogonal in groups of D.

With the Gaussian kernel the exponents are w·x − ‖x‖². Sums over keys come first, so that the cost is linear.

Axes: H heads, N points, D dimensions, M random features, B clouds.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.projections import Kernel, multi_head

# Added to every feature, so that the normalisation is never zero.
FEATURE_FLOOR = 1e-6


class PerformerAttention(nn.Module):
    """Linear attention with positive orthogonal random features.

    Args:
        n_heads: Attention heads.
        dim: Dimensions of a query.
        n_random: Random features M.
        kernel: `dot` or `gauss`.
    """

    def __init__(self, n_heads: int, dim: int, *, n_random: int = 200, kernel: Kernel = "dot") -> None:
        super().__init__()
        self.kernel: Kernel = kernel
        self.register_buffer("directions", draw_orthogonal(n_heads, n_random, dim))

    directions: Tensor

    def forward(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V)."""
        log_q = log_features(query, self.directions, self.kernel)  # (H, N, M)
        log_k = log_features(key, self.directions, self.kernel)
        # Factors per query and per cloud cancel in the ratio; they only prevent overflow.
        phi_q = (log_q - log_q.detach().amax(-1, keepdim=True)).exp() + FEATURE_FLOOR
        phi_k = (log_k - greatest_of_cloud(log_k.detach(), clouds)[..., None]).exp() + FEATURE_FLOOR
        summed, total = sum_over_keys(phi_q, phi_k, value, clouds)
        return summed / total[..., None]


def draw_orthogonal(n_heads: int, n_random: int, dim: int) -> Tensor:
    """(H, M, D) directions w, orthogonal in groups of D, with lengths of Gaussian vectors."""
    groups = -(-n_random // dim)
    square, upper = torch.linalg.qr(torch.randn(n_heads, groups, dim, dim))
    # QR fixes signs; multiplying by the signs of the diagonal makes the distribution uniform.
    square = (square * upper.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]).mT
    length = torch.randn(n_heads, groups, dim, dim).norm(dim=-1, keepdim=True)
    directions: Tensor = (square * length).flatten(1, 2)[:, :n_random]
    return directions


def log_features(x: Tensor, directions: Tensor, kernel: Kernel) -> Tensor:
    """Logarithms of positive random features, (H, N, D) to (H, N, M): their mean product is the kernel."""
    squared = x.square().sum(-1, keepdim=True)
    log: Tensor = x @ directions.to(x.dtype).mT - (0.5 * squared if kernel == "dot" else squared)
    return log


def greatest_of_cloud(log: Tensor, clouds: Clouds) -> Tensor:
    """(H, N) the largest entry of (H, N, M) in each point's cloud."""
    per_point = log.amax(-1)
    most = per_point.new_full((log.shape[0], clouds.n_clouds), -torch.inf)
    most.scatter_reduce_(1, clouds.index.expand(per_point.shape), per_point, "amax")
    return most[:, clouds.index]


def sum_over_keys(phi_q: Tensor, phi_k: Tensor, value: Tensor, clouds: Clouds) -> tuple[Tensor, Tensor]:
    """Σ_w φ(q)·φ(k_w) v_w and Σ_w φ(q)·φ(k_w) over the keys of the query's cloud: (H, N, V) and (H, N)."""
    summed, total = [], []
    bounds = clouds.offsets.tolist()
    for a, b in itertools.pairwise(bounds):
        q, k = phi_q[:, a:b], phi_k[:, a:b]
        summed.append(q @ (k.mT @ value[:, a:b]))
        total.append((q @ k.sum(1)[..., None])[..., 0])
    return torch.cat(summed, 1), torch.cat(total, 1)


def make_performer(frame: Frame, width: int, kernel: Kernel = "dot") -> AttentionFactory:
    """Make Performer with the sizes of a comparison: 150 random features for blocks of 100."""
    return multi_head(
        frame,
        width,
        lambda dim, layer: PerformerAttention(
            frame.n_heads, dim, n_random=3 * frame.block_size // 2, kernel=kernel
        ),
        kernel,
    )
