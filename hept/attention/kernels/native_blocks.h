/* Block attention for one instruction set: rows of a head enter, its sums or gradients leave.

   native.cpp includes this file once per instruction set, in a namespace that defines LANES (numbers per
   register) and STRIP (queries processed together, so that each loaded key serves all of them).

   Distances are sums of squared differences, not q·k − ½q² − ½k²: with trained ω, coordinates reach 10⁴ and
   differ by little, so the expanded form would cancel in float32.

   Axes: D dimensions of a query with its coordinates, V of a value, S slots of a block; D and V are padded with
   zeros to whole registers, S to whole registers and strips. */

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Integers __attribute__((vector_size(4 * LANES)));

inline Vector &at(float *memory) {
    return *reinterpret_cast<Vector *>(memory);
}

inline Vector at(const float *memory) {
    return *reinterpret_cast<const Vector *>(memory);
}

inline Vector all(float x) {
    return x - Vector{};
}

/* e^x for −87 < x ≤ 0, accurate up to the last one or two digits: 2ⁿ eʳ with |r| ≤ ½ ln 2. */
inline Vector exponential(Vector x) {
    const float to_integer = 12582912.0f; // 1.5·2²³: adding it rounds to an integer
    const Vector shifted = x * 1.44269504f + to_integer, n = shifted - to_integer;
    // ln 2 in two parts: n times the first is exact.
    const Vector r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Vector sum = r * (1.0f / 720) + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    // A product, because it propagates NaN; 0x3f800000 is 1.
    const Integers power = (reinterpret_cast<Integers>(shifted) << 23) + 0x3f800000;
    return sum * reinterpret_cast<Vector>(power);
}

/* Call work(w, 2) for pairs of n registers and work(w, 1) for the last if n is odd: each loaded query then
   serves two registers. */
template <typename Work> inline void by_two(int64_t n, Work work) {
    for (int64_t w = 0; w + 1 < n; w += 2) work(w, std::integral_constant<int, 2>());
    if (n % 2) work(n - 1, std::integral_constant<int, 1>());
}

/* Record which keys of a register are near any query of a strip; NaN counts as near. */
inline void note_near(Tile &tile, int64_t begin, const Vector (&squares)[STRIP]) {
    Vector nearest = squares[0], zero = {};
    for (int i = 0; i < STRIP; i++) {
        nearest = squares[i] < nearest ? squares[i] : nearest;
        zero += 0.0f * squares[i];
    }
    const Integers is_far = (nearest > -2 * LEAST_LOGIT) & (zero == 0.0f);
    const int64_t before = tile.n_near;
    for (int64_t j = begin; j < begin + LANES && j < tile.length; j++) {
        tile.near[tile.n_near] = static_cast<int32_t>(j);
        tile.n_near += is_far[j - begin] == 0;
    }
    if (tile.n_near > before) tile.near_registers[tile.n_near_registers++] = static_cast<int32_t>(begin);
}

/* Kernel values (STRIP, S) of the queries from `first` on and the near keys of the block. With trained weights
   many keys are so far away that their kernel value is negligible. */
inline void weigh(const Sizes &of, Tile &tile, int64_t first) {
    const int64_t dim = of.padded_dim, size = of.padded_size;
    const float *query = tile.query + first * dim;
    const Vector least = all(LEAST_LOGIT);
    tile.n_near = tile.n_near_registers = 0;
    by_two((tile.length + LANES - 1) / LANES, [&](int64_t begin, auto width) {
        const float *keys = tile.key_turned + begin * LANES;
        Vector squares[width][STRIP] = {};
        for (int64_t d = 0; d < of.dim; d++)
            for (int i = 0; i < STRIP; i++) {
                const Vector mine = all(query[i * dim + d]);
                for (int w = 0; w < width; w++) {
                    const Vector difference = at(keys + d * size + w * LANES) - mine;
                    squares[w][i] += difference * difference;
                }
            }
        for (int w = 0; w < width; w++) {
            const int64_t before = tile.n_near_registers, here = (begin + w) * LANES;
            note_near(tile, here, squares[w]);
            for (int i = 0; i < STRIP && tile.n_near_registers > before; i++) {
                const Vector logit = -0.5f * squares[w][i];
                at(tile.weight + i * size + here) = exponential(logit < least ? least : logit);
            }
        }
    });
}

/* Add Σ_j w_ij [v_j, 1] of a strip to the rows of its queries. */
inline void add_values(const Sizes &of, const Tile &tile, int64_t first, float *sums) {
    const int64_t n_columns = of.padded_values, size = of.padded_size;
    by_two(n_columns / LANES, [&](int64_t begin, auto width) {
        const float *values = tile.value + begin * LANES;
        Vector sum[width][STRIP] = {};
        for (int64_t n = 0; n < tile.n_near; n++) {
            const int64_t j = tile.near[n];
            for (int i = 0; i < STRIP; i++)
                for (int w = 0; w < width; w++)
                    sum[w][i] += tile.weight[i * size + j] * at(values + j * n_columns + w * LANES);
        }
        for (int i = 0; i < STRIP && first + i < tile.length; i++)
            for (int w = 0; w < width; w++)
                at(sums + tile.q_rows[first + i] * n_columns + (begin + w) * LANES) += sum[w][i];
    });
}

/* Gradient of the logits (STRIP, S): (dn_i·v_j + dz_i) w_ij, and 0 where the logit was clamped. */
inline void backward_weights(const Sizes &of, const BackwardTile &tile, int64_t first) {
    const int64_t n_columns = of.padded_values, size = of.padded_size;
    const float *d_sums = tile.d_sums + first * n_columns;
    by_two(tile.n_near_registers, [&](int64_t n, auto width) {
        const int32_t *begin = tile.near_registers + n;
        Vector sum[width][STRIP] = {};
        for (int64_t c = 0; c <= of.n_values; c++)
            for (int i = 0; i < STRIP; i++)
                for (int w = 0; w < width; w++)
                    sum[w][i] += d_sums[i * n_columns + c] * at(tile.value_turned + c * size + begin[w]);
        for (int w = 0; w < width; w++)
            for (int i = 0; i < STRIP; i++) {
                const int64_t here = i * size + begin[w];
                const Vector weight = at(tile.weight + here);
                at(tile.d_logit + here) = sum[w][i] * (weight < FLAT_WEIGHT ? Vector{} : weight);
            }
    });
}

/* Add Σ_j dlogit_ij (k_j−q_i) to the rows of the strip's queries, and subtract the terms from the block's keys. */
inline void backward_logits(const Sizes &of, const BackwardTile &tile, int64_t first, float *d_query) {
    const int64_t dim = of.padded_dim, size = of.padded_size;
    for (int64_t d = 0; d < dim; d += LANES) {
        Vector query[STRIP], sum[STRIP] = {};
        for (int i = 0; i < STRIP; i++) query[i] = at(tile.query + (first + i) * dim + d);
        for (int64_t n = 0; n < tile.n_near; n++) {
            const int64_t j = tile.near[n];
            const Vector key = at(tile.key + j * dim + d);
            Vector d_key = at(tile.d_key + j * dim + d);
            for (int i = 0; i < STRIP; i++) {
                const Vector difference = key - query[i];
                const float d_logit = tile.d_logit[i * size + j];
                sum[i] += d_logit * difference;
                d_key -= d_logit * difference;
            }
            at(tile.d_key + j * dim + d) = d_key;
        }
        for (int i = 0; i < STRIP && first + i < tile.length; i++)
            at(d_query + tile.q_rows[first + i] * dim + d) += sum[i];
    }
}

/* Add Σ_i w_ij dn_i of a strip to the gradients of the block's values. */
inline void backward_values(const Sizes &of, const BackwardTile &tile, int64_t first) {
    const int64_t n_columns = of.padded_values, size = of.padded_size;
    by_two(n_columns / LANES, [&](int64_t begin, auto width) {
        const float *of_strip = tile.d_sums + first * n_columns + begin * LANES;
        Vector d_sums[width][STRIP];
        for (int w = 0; w < width; w++)
            for (int i = 0; i < STRIP; i++) d_sums[w][i] = at(of_strip + i * n_columns + w * LANES);
        for (int64_t n = 0; n < tile.n_near; n++) {
            const int64_t j = tile.near[n];
            float *into = tile.d_value + j * n_columns + begin * LANES;
            Vector sum[width];
            for (int w = 0; w < width; w++) sum[w] = at(into + w * LANES);
            for (int i = 0; i < STRIP; i++)
                for (int w = 0; w < width; w++) sum[w] += tile.weight[i * size + j] * d_sums[w][i];
            for (int w = 0; w < width; w++) at(into + w * LANES) = sum[w];
        }
    });
}

/* Transpose a square of registers recursively: exchange halves, then quarters, … */
inline void turn_square(Vector (&square)[LANES]) {
#ifdef __clang__
    // Clang's shuffle only takes constant indices.
    float turned[LANES][LANES];
    for (int i = 0; i < LANES; i++)
        for (int lane = 0; lane < LANES; lane++) turned[lane][i] = square[i][lane];
    for (int i = 0; i < LANES; i++) memcpy(&square[i], turned[i], sizeof square[i]);
#else
    Integers lane;
    for (int i = 0; i < LANES; i++) lane[i] = i;
    for (int half = LANES / 2; half; half /= 2) {
        const Integers is_right = (lane & half) != 0;
        const Integers upper = is_right ? lane - half + LANES : lane;
        const Integers lower = is_right ? lane + LANES : lane + half;
        for (int i = 0; i < LANES; i++)
            if (!(i & half)) {
                const Vector above = square[i], below = square[i + half];
                square[i] = __builtin_shuffle(above, below, upper);
                square[i + half] = __builtin_shuffle(above, below, lower);
            }
    }
#endif
}

/* Transpose (S, columns) to (columns, S). */
inline void turn(const float *rows, int64_t n_columns, int64_t size, float *turned) {
    for (int64_t i = 0; i < size; i += LANES)
        for (int64_t c = 0; c < n_columns; c += LANES) {
            Vector square[LANES];
            for (int lane = 0; lane < LANES; lane++) square[lane] = at(rows + (i + lane) * n_columns + c);
            turn_square(square);
            for (int lane = 0; lane < LANES; lane++) at(turned + (c + lane) * size + i) = square[lane];
        }
}

/* Copy the first n columns of a row, and fill the rest with zeros. */
inline void fill_row(const float *from, int64_t n, int64_t n_columns, float *row) {
    for (int64_t c = 0; c < n_columns; c += LANES) at(row + c) = Vector{};
    for (int64_t c = 0; c < n; c++) row[c] = from[c];
}

/* Fill the rows of all points: [q, c], [k, c] and [v, 1] from q and k (N, M), c (P, N) and v (N, V). */
inline void
fill_rows(const Sizes &of, const Inputs &in, int64_t head, const Layout &layout, const Rows &rows) {
    const int64_t m = of.query_dim, v = of.n_values, begin = head * of.n_points;
    const float *coords = in.coords + head * of.coords_dim * of.n_points;
    for (int64_t i = 0; i < of.n_points; i++) {
        const int64_t row = layout.row[i];
        float *query = rows.query + row * of.padded_dim, *key = rows.key + row * of.padded_dim;
        float *value = rows.value + row * of.padded_values;
        fill_row(in.query + (begin + i) * m, m, of.padded_dim, query);
        fill_row(in.key + (begin + i) * m, m, of.padded_dim, key);
        fill_row(in.value + (begin + i) * v, v, of.padded_values, value);
        for (int64_t d = 0; d < of.coords_dim; d++) query[m + d] = key[m + d] = coords[d * of.n_points + i];
        value[v] = 1.0f;
    }
}

/* Gradient of [n, z] = [z·out, z] from the gradient of out: [dout, −dout·out] / z. */
inline void fill_d_sums(
    const Sizes &of, const Layout &layout, const float *grad, const float *out, const float *total,
    float *d_sums) {
    for (int64_t i = 0; i < of.n_points; i++) {
        const int64_t begin = i * of.n_heads * of.n_values;
        float *row = d_sums + layout.row[i] * of.padded_values, product = 0.0f;
        fill_row(grad + begin, of.n_values, of.padded_values, row);
        for (int64_t c = 0; c < of.n_values; c++) {
            row[c] /= total[i];
            product += row[c] * out[begin + c];
        }
        row[of.n_values] = -product;
    }
}

/* Gather the rows `which` into contiguous memory, and fill up to S with zeros. */
inline void lay_rows(
    const float *rows, const int32_t *which, int64_t length, int64_t n_columns, int64_t size, float *gathered) {
    for (int64_t i = 0; i < length; i++)
        for (int64_t c = 0; c < n_columns; c += LANES)
            at(gathered + i * n_columns + c) = at(rows + which[i] * n_columns + c);
    memset(gathered + length * n_columns, 0, (size - length) * n_columns * sizeof(float));
}

/* Add gathered rows back to the rows `which`. */
inline void
add_rows(const float *gathered, const int32_t *which, int64_t length, int64_t n_columns, float *rows) {
    for (int64_t i = 0; i < length; i++)
        for (int64_t c = 0; c < n_columns; c += LANES)
            at(rows + which[i] * n_columns + c) += at(gathered + i * n_columns + c);
}

/* Gather the rows of one of the C·K blocks, filled slots first. */
inline void lay_block(const Sizes &of, const Layout &layout, const Rows &rows, int64_t block, Tile &tile) {
    const int64_t table = block / of.n_blocks, begin = block % of.n_blocks * of.block_size;
    const int32_t *query_order = layout.query_order + table * layout.stride;
    const int32_t *key_order = layout.key_order + table * layout.stride;
    tile.length = 0;
    for (int64_t slot = begin; slot < begin + of.block_size; slot++)
        if (layout.is_filled[slot]) {
            tile.q_rows[tile.length] = layout.row[query_order[layout.position[slot]]];
            tile.k_rows[tile.length++] = layout.row[key_order[layout.position[slot]]];
        }
    const int64_t dim = of.padded_dim, n_columns = of.padded_values, size = of.padded_size;
    lay_rows(rows.query, tile.q_rows, tile.length, dim, size, tile.query);
    lay_rows(rows.key, tile.k_rows, tile.length, dim, size, tile.key);
    lay_rows(rows.value, tile.k_rows, tile.length, n_columns, size, tile.value);
    turn(tile.key, dim, size, tile.key_turned);
}

void attend(
    const Sizes &of, const Inputs &in, int64_t head, float epsilon, float *workspace, float *out, float *total) {
    Forward pass(of, in, head, Memory{workspace});
    Tile &tile = pass.tile;
    fill_rows(of, in, head, pass.layout, pass.rows);
    memset(pass.sums, 0, of.n_points * of.padded_values * sizeof(float));
    for (int64_t block = 0; block < of.n_tables * of.n_blocks; block++) {
        lay_block(of, pass.layout, pass.rows, block, tile);
        for (int64_t first = 0; first < tile.length; first += STRIP) {
            weigh(of, tile, first);
            add_values(of, tile, first, pass.sums);
        }
    }
    for (int64_t i = 0; i < of.n_points; i++) {
        const float *sum = pass.sums + pass.layout.row[i] * of.padded_values;
        const float z = sum[of.n_values] + epsilon;
        float *mine = out + (i * of.n_heads + head) * of.n_values;
        for (int64_t c = 0; c < of.n_values; c++) mine[c] = sum[c] / z;
        total[head * of.n_points + i] = z;
    }
}

void backward(
    const Sizes &of, const Inputs &in, int64_t head, const float *grad, const float *out, const float *total,
    float *workspace, const Gradients &into) {
    Backward pass(of, in, head, Memory{workspace});
    BackwardTile &tile = pass.tile;
    const Layout &layout = pass.layout;
    const int64_t m = of.query_dim, v = of.n_values, begin = head * of.n_points;
    const int64_t dim = of.padded_dim, n_columns = of.padded_values, size = of.padded_size;
    fill_rows(of, in, head, layout, pass.rows);
    fill_d_sums(of, layout, grad + head * v, out + head * v, total + begin, pass.d_sums);
    memset(pass.grads.query, 0, of.n_points * dim * sizeof(float));
    memset(pass.grads.key, 0, of.n_points * dim * sizeof(float));
    memset(pass.grads.value, 0, of.n_points * n_columns * sizeof(float));
    for (int64_t block = 0; block < of.n_tables * of.n_blocks; block++) {
        lay_block(of, layout, pass.rows, block, tile);
        lay_rows(pass.d_sums, tile.q_rows, tile.length, n_columns, size, tile.d_sums);
        turn(tile.value, n_columns, size, tile.value_turned);
        memset(tile.d_key, 0, size * dim * sizeof(float));
        memset(tile.d_value, 0, size * n_columns * sizeof(float));
        for (int64_t first = 0; first < tile.length; first += STRIP) {
            weigh(of, tile, first);
            backward_weights(of, tile, first);
            backward_logits(of, tile, first, pass.grads.query);
            backward_values(of, tile, first);
        }
        add_rows(tile.d_key, tile.k_rows, tile.length, dim, pass.grads.key);
        add_rows(tile.d_value, tile.k_rows, tile.length, n_columns, pass.grads.value);
    }
    for (int64_t i = 0; i < of.n_points; i++) {
        const int64_t row = layout.row[i];
        const float *d_query = pass.grads.query + row * dim, *d_key = pass.grads.key + row * dim;
        const float *d_value = pass.grads.value + row * n_columns;
        for (int64_t d = 0; d < m; d++) into.query[(begin + i) * m + d] = d_query[d];
        for (int64_t d = 0; d < m; d++) into.key[(begin + i) * m + d] = d_key[d];
        for (int64_t c = 0; c < v; c++) into.value[(begin + i) * v + c] = d_value[c];
        for (int64_t d = 0; d < of.coords_dim; d++)
            into.coords[(head * of.coords_dim + d) * of.n_points + i] = d_query[m + d] + d_key[m + d];
    }
}
