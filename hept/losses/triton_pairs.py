"""InfoNCE over pair lists as a Triton kernel: embeddings and lists enter, loss and gradient leave.

    L(u) = weight_u Σ_v log(1 + S_u / e_uv),   S_u = Σ_n e_un,   e = exp(l − l_max)

with v over the positives of an anchor u, n over its negatives, listed and drawn, and the logit l of
`hept.losses.infonce`. A program handles one anchor. It loops over the negatives for S, over the positives for
the loss and their gradients, and over the negatives again for their gradients.

Many programs add to the gradient of a partner. If `EXACT`, gradients are integers, in units of 1/UNIT:
integer sums do not depend on their order, so results are deterministic without sorting. Otherwise they are
float32, which is half as many bytes, and their last digits depend on the order.

Axes: N points, D dimensions of an embedding, T pairs of a chunk, B clouds; DP, BP: powers of two.
"""

import triton
import triton.language as tl

# A particle adds at most about 20 to the gradient of a point, for any number of pairs: sums over 400,000
# particles fit into 63 bits, and one unit is far below the rounding error of float32.
UNIT = tl.constexpr(2.0**40)
WIDTH = tl.constexpr(2 * 0.75**2)


@triton.jit
def find_logit(square, tau, PUBLISHED: tl.constexpr):
    """exp(l − l_max) of squared distances, and dl/dd / d, which is 0 at d = 0."""
    if PUBLISHED:
        d = tl.sqrt(square)
        sim = tl.exp(-d / WIDTH)
        slope = tl.where(d > 0.0, -sim / (tl.where(d > 0.0, d, 1.0) * WIDTH * tau), 0.0)
        shifted = (sim - 1.0) / tau
    else:
        sim = tl.exp(-square / tau)
        slope = -2.0 * sim / tau
        shifted = sim - 1.0
    return tl.exp(shifted), slope


@triton.jit
def load_differences(x, mine, partner, is_there, D: tl.constexpr, DP: tl.constexpr):
    """(T, DP) the own embedding minus those of the partners, and the squared distances (T,)."""
    d = tl.arange(0, DP)
    at = (x + partner.to(tl.int64) * D)[:, None] + d[None, :]
    rows = tl.load(at, is_there[:, None] & (d < D)[None, :], other=0.0)
    difference = tl.where(is_there[:, None], mine[None, :] - rows, 0.0)
    return difference, tl.sum(difference * difference, 1)


@triton.jit
def count_units(pull, EXACT: tl.constexpr):
    """A gradient as it is added up: the nearest number of units, or itself."""
    return tl.floor(0.5 + pull * UNIT).to(tl.int64) if EXACT else pull


@triton.jit
def add_force(
    grad, force, difference, partner, is_there, D: tl.constexpr, DP: tl.constexpr, EXACT: tl.constexpr
):
    """Add −force·difference to the gradients of partners; return the anchor's own gradient (DP,)."""
    d = tl.arange(0, DP)
    pull = force[:, None] * difference
    at = (grad + partner.to(tl.int64) * D)[:, None] + d[None, :]
    tl.atomic_add(at, count_units(-pull, EXACT), is_there[:, None] & (d < D)[None, :], sem="relaxed")
    return tl.sum(pull, 0)


@triton.jit
def find_cloud(offsets, point, n_clouds, BP: tl.constexpr):
    """Where the cloud of a point begins, and how many points it has."""
    b = tl.arange(0, BP)
    border = tl.load(offsets + b, b <= n_clouds, other=0)
    is_before = (border <= point) & (b <= n_clouds)
    begin = tl.max(tl.where(is_before, border, 0), 0)
    # Offsets ascend; entries beyond the last are masked.
    end = tl.min(tl.where((b <= n_clouds) & (border > point), border, 2**62), 0)
    return begin, end - begin


@triton.jit
def draw_points(seed, anchor, i, begin, size):
    """The i-th random point of the cloud for an anchor: a function of seed, anchor and i only."""
    # Philox has four 32-bit counters: the draw, the anchor's low and high bits, and 0.
    zero = i * 0
    low, high = (anchor & 0x7FFFFFFF).to(tl.int32), (anchor >> 31).to(tl.int32)
    bits, _, _, _ = tl.philox(seed, i, zero + low, zero + high, zero)
    # ⌊size · bits / 2³²⌋, in 64 bits.
    return begin + ((bits.to(tl.uint32, bitcast=True).to(tl.int64) * size) >> 32)


@triton.jit(do_not_specialize=["seed", "n_clouds"])
def add_anchors(
    x, positive_ptr, positive_idx, negative_ptr, negative_idx, particle, weight, offsets, loss, grad,
    seed, fraction, tau, n_clouds,
    D: tl.constexpr, DP: tl.constexpr, T: tl.constexpr, BP: tl.constexpr, PUBLISHED: tl.constexpr,
    WITH_DRAWS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Store the loss of an anchor (N,), and add its part to all gradients (N, D)."""
    anchor = tl.program_id(0).to(tl.int64)
    pair_weight = tl.load(weight + anchor)
    if pair_weight == 0.0:
        tl.store(loss + anchor, 0.0)
        return
    d, t = tl.arange(0, DP), tl.arange(0, T)
    mine = tl.load(x + anchor * D + d, d < D, other=0.0)
    # 64 bits only for where a list begins: all together may hold more than 2³¹ pairs.
    begin = tl.load(negative_ptr + anchor)
    negatives, n_negatives = negative_idx + begin, (tl.load(negative_ptr + anchor + 1) - begin).to(tl.int32)
    sums = tl.zeros((T,), tl.float32)
    for first in range(0, n_negatives, T):
        is_there = first + t < n_negatives
        partner = tl.load(negatives + first + t, is_there, other=0)
        _, square = load_differences(x, mine, partner, is_there, D, DP)
        e, _ = find_logit(square, tau, PUBLISHED)
        sums += tl.where(is_there, e, 0.0)
    if WITH_DRAWS:
        my_particle = tl.load(particle + anchor)
        cloud_begin, cloud_size = find_cloud(offsets, anchor, n_clouds, BP)
        n_draws = tl.floor(n_negatives.to(tl.float32) * fraction + 0.5).to(tl.int32)
        for first in range(0, n_draws, T):
            partner = draw_points(seed, anchor, first + t, cloud_begin, cloud_size)
            is_there = (first + t < n_draws) & (tl.load(particle + partner) != my_particle)
            _, square = load_differences(x, mine, partner, is_there, D, DP)
            e, _ = find_logit(square, tau, PUBLISHED)
            sums += tl.where(is_there, e, 0.0)
    total = tl.sum(sums, 0)

    own = tl.zeros((DP,), tl.float32)
    losses, pulls = tl.zeros((T,), tl.float32), tl.zeros((T,), tl.float32)
    begin = tl.load(positive_ptr + anchor)
    positives, n_positives = positive_idx + begin, (tl.load(positive_ptr + anchor + 1) - begin).to(tl.int32)
    for first in range(0, n_positives, T):
        is_there = first + t < n_positives
        partner = tl.load(positives + first + t, is_there, other=0)
        difference, square = load_differences(x, mine, partner, is_there, D, DP)
        e, slope = find_logit(square, tau, PUBLISHED)
        ratio = total / e
        # log(1 + r); for small r, 1 + r would lose digits.
        log = tl.where(ratio < 1e-2, ratio * (1.0 - ratio * (0.5 - ratio / 3.0)), tl.log(1.0 + ratio))
        losses += tl.where(is_there, log, 0.0)
        pull = tl.where(is_there, pair_weight * total / (e + total), 0.0)
        pulls += pull
        own += add_force(grad, -pull * slope, difference, partner, is_there, D, DP, EXACT)
    tl.store(loss + anchor, pair_weight * tl.sum(losses, 0))

    scale = tl.sum(pulls, 0) / tl.where(total > 0.0, total, 1.0)
    for first in range(0, n_negatives, T):
        is_there = first + t < n_negatives
        partner = tl.load(negatives + first + t, is_there, other=0)
        difference, square = load_differences(x, mine, partner, is_there, D, DP)
        e, slope = find_logit(square, tau, PUBLISHED)
        own += add_force(grad, scale * e * slope, difference, partner, is_there, D, DP, EXACT)
    if WITH_DRAWS:
        for first in range(0, n_draws, T):
            partner = draw_points(seed, anchor, first + t, cloud_begin, cloud_size)
            is_there = (first + t < n_draws) & (tl.load(particle + partner) != my_particle)
            difference, square = load_differences(x, mine, partner, is_there, D, DP)
            e, slope = find_logit(square, tau, PUBLISHED)
            own += add_force(grad, scale * e * slope, difference, partner, is_there, D, DP, EXACT)
    tl.atomic_add(grad + anchor * D + d, count_units(own, EXACT), d < D, sem="relaxed")
