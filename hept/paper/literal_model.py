"""The authors' forward pass, step by step: what ours is measured against, by benchmarks and `hept.doctor`.

Written from the description of their procedure, for one cloud with any number of points. Like theirs, it pads
the cloud to whole blocks with copies of points, expands ‖q−k‖² into three float32 terms, packs the tuple of
codes into one float32, and holds all blocks of all tables in memory at once.

Axes: N points (padded), H heads, C tables, D dimensions, S block size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

State = dict[str, Tensor]


def forward(
    state: State, features: Tensor, coords: Tensor, block_size: int = 100, *, dropout: float = 0.0
) -> Tensor:
    """Outputs (n, 12) for one cloud; with dropout as in training, without in evaluation."""
    n = features.shape[0]
    surplus = -n % block_size
    repeat = torch.randperm(n, device=features.device)[:surplus]
    features, coords = torch.cat([features, features[repeat]]), torch.cat([coords, coords[repeat]])
    shifts = combine_regions(coords, state["regions"])

    x = functional.linear(features, state["feat_encoder.0.weight"], state["feat_encoder.0.bias"]).relu()
    x = functional.linear(x, state["feat_encoder.2.weight"], state["feat_encoder.2.bias"])
    layers = [x]
    for i in range(4):
        x = block(state, f"attns.{i}", x, coords, shifts, block_size, dropout)
        layers.append(x)
    h = torch.cat(layers, -1) @ state["W.weight"].T
    return (h + functional.dropout(mlp(state, h), dropout))[:n]


def combine_regions(coords: Tensor, regions: Tensor) -> Tensor:
    """Codes (C, H, N): the φ region in the high bits, the η region in the low ones."""
    n = coords.shape[0]
    indices = []
    for column in range(2):
        size = torch.ceil(n / regions[:, column].float())[..., None]  # (C, H, 1)
        rank = torch.argsort(torch.argsort(coords[:, column]))
        indices.append(((torch.arange(n, device=coords.device) // size + 1)[..., rank]).long())
    bits = torch.ceil(torch.log2(indices[0].amax(-1, keepdim=True) + 1)).long()
    return (indices[1] << bits) | indices[0]


def block(
    state: State, name: str, x: Tensor, coords: Tensor, shifts: Tensor, block_size: int, dropout: float
) -> Tensor:
    """One transformer block."""
    width = (x.shape[1],)
    y = functional.layer_norm(x, width, state[f"{name}.norm1.weight"], state[f"{name}.norm1.bias"])
    x = x + functional.dropout(attention(state, name, y, coords, shifts, block_size), dropout)
    y = functional.layer_norm(x, width, state[f"{name}.norm2.weight"], state[f"{name}.norm2.bias"])
    y = functional.linear(y, state[f"{name}.ff.0.weight"], state[f"{name}.ff.0.bias"]).relu()
    y = functional.linear(y, state[f"{name}.ff.2.weight"], state[f"{name}.ff.2.bias"])
    return x + functional.dropout(y, dropout)


def attention(state: State, name: str, x: Tensor, coords: Tensor, shifts: Tensor, block_size: int) -> Tensor:
    """Attention in blocks of sorted queries and keys, all tables at once."""
    n, dim = x.shape
    query, key, value = ((x @ state[f"{name}.{w}.weight"].T).view(n, -1, dim) for w in ("w_q", "w_k", "w_v"))
    n_heads = query.shape[1]
    terms = state[f"{name}.w_rpe.weight"].view(n_heads, dim, -1, 10)
    omega = terms.sum(1).clamp(max=50).exp().sum(-1)
    omega = torch.cat([omega[:, :1], omega], -1)
    scaled = torch.sqrt(2 * omega)[None] * coords[:, None]
    query = torch.cat([query, scaled], -1).transpose(0, 1)  # (H, N, D)
    key = torch.cat([key, scaled], -1).transpose(0, 1)
    value = value.transpose(0, 1)

    alpha = state[f"{name}.attn.e2lsh.alpha"]
    query_hash = torch.einsum("hnd,hdc->chn", query, alpha)
    key_hash = torch.einsum("hnd,hdc->chn", key, alpha)
    high = torch.maximum(query_hash.amax(-1, keepdim=True), key_hash.amax(-1, keepdim=True))
    low = torch.minimum(query_hash.amin(-1, keepdim=True), key_hash.amin(-1, keepdim=True))
    query_order = (query_hash + shifts * (high - low)).argsort(-1)
    key_order = (key_hash + shifts * (high - low)).argsort(-1)

    q = sort_to_blocks(query, query_order, block_size)  # (C, H, K, S, D)
    k = sort_to_blocks(key, key_order, block_size)
    v = sort_to_blocks(value, key_order, block_size)
    q_square = -0.5 * (q**2).sum(-1, keepdim=True)
    k_square = -0.5 * (k**2).sum(-1, keepdim=True)
    weight = torch.einsum("...id,...jd->...ij", q, k)
    weight = (weight + q_square + k_square.transpose(-1, -2)).clamp(max=0.0).exp()
    total = weight.sum(-1, keepdim=True) + 1e-20
    out = torch.einsum("...ij,...jd->...id", weight, v)

    back = torch.argsort(query_order, -1)[..., None]
    out = out.flatten(2, 3).gather(2, back.expand(-1, -1, -1, out.shape[-1])).sum(0)
    total = total.flatten(2, 3).gather(2, back).sum(0)
    out = (out / total).transpose(0, 1).flatten(1)
    last = f"{name}.attn.out_linear"
    return functional.linear(out, state[f"{last}.weight"], state[f"{last}.bias"])


def sort_to_blocks(rows: Tensor, order: Tensor, block_size: int) -> Tensor:
    """Sort (H, N, D) by the order (C, H, N) and cut into blocks: (C, H, K, S, D)."""
    index = order[..., None].expand(-1, -1, -1, rows.shape[-1])
    gathered = rows.expand(order.shape[0], -1, -1, -1).gather(2, index)
    return torch.unflatten(gathered, 2, (-1, block_size))


def mlp(state: State, h: Tensor) -> Tensor:
    """The residual network at the end."""
    for j in range(4):
        h = functional.linear(h, state[f"mlp_out.lins.{j}.weight"], state[f"mlp_out.lins.{j}.bias"])
        norm = f"mlp_out.norms.{j}"
        h = functional.layer_norm(h, h.shape[-1:], state[f"{norm}.weight"], state[f"{norm}.bias"]).tanh()
    return functional.linear(h, state["mlp_out.lins.4.weight"], state["mlp_out.lins.4.bias"])


def draw_state(seed: int = 0) -> State:
    """A checkpoint with the authors' 88 names and shapes and random numbers."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, scale: float = 0.3) -> Tensor:
        return torch.randn(*shape, generator=generator) * scale

    state = {"regions": 2 + 10 * torch.rand(3, 2, 8, generator=generator), "W.weight": draw(12, 120)}
    linear = {"feat_encoder.0": (24, 15), "feat_encoder.2": (24, 24)}
    linear |= {f"mlp_out.lins.{j}": (12 if j == 4 else 256, 12 if j == 0 else 256) for j in range(5)}
    norms = [f"mlp_out.norms.{j}" for j in range(4)]
    for i in range(4):
        linear |= {f"attns.{i}.ff.{j}": (24, 24) for j in (0, 2)}
        linear |= {f"attns.{i}.attn.out_linear": (24, 192), f"attns.{i}.w_rpe": (192, 50)}
        state |= {f"attns.{i}.{w}.weight": draw(192, 24, scale=0.1) for w in ("w_q", "w_k", "w_v")}
        state[f"attns.{i}.attn.e2lsh.alpha"] = draw(8, 30, 3, scale=1.0)
        norms += [f"attns.{i}.norm1", f"attns.{i}.norm2"]
    for name, shape in linear.items():
        state |= {f"{name}.weight": draw(*shape, scale=0.1), f"{name}.bias": draw(shape[0])}
    for name in norms:
        width = 256 if name.startswith("mlp") else 24
        state |= {f"{name}.weight": 1 + draw(width), f"{name}.bias": draw(width)}
    return state
