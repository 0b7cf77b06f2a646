/* Block attention on a CPU, forward and backward: tensors enter, the results are filled in. Called by
   hept/attention/kernels/native.py.

       w_ij = exp(−½‖q_i−k_j‖²)      [n_i, z_i] = Σ_j w_ij [v_j, 1]      out_i = n_i / z_i

   Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P coordinates, K blocks, S slots. */

#include <atomic>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <type_traits>

namespace {

// Rows and blocks are padded to a multiple of this: the widest register, and a strip of queries.
constexpr int64_t PADDED = 16;
// Lower bound of logits: below, exponentials become subnormal, which costs hundreds of cycles.
constexpr float LEAST_LOGIT = -75.0f;
// Slightly above exp(LEAST_LOGIT) = 2.679·10⁻³³: a smaller weight was clamped, so its gradient is 0.
constexpr float FLAT_WEIGHT = 2.68e-33f;

int64_t pad(int64_t n) {
    return (n + PADDED - 1) / PADDED * PADDED;
}

} // namespace

extern "C" {

struct Shape {
    int64_t n_heads, n_points, n_tables, query_dim, coords_dim, n_values, n_blocks, block_size;
};

struct Inputs {
    const float *query, *key, *value;       // (H, N, M), (H, N, M), (H, N, V)
    const float *coords;                     // (H, P, N)
    const int32_t *query_order, *key_order; // (C, H, N)
    const int64_t *position;                // (K, S)
    const uint8_t *is_filled;               // (K, S)
};

struct Gradients {
    float *query, *key, *value, *coords; // shaped as the inputs
};

} // extern "C"

namespace {

struct Sizes : Shape {
    int64_t dim, padded_dim, padded_values, padded_size;

    explicit Sizes(const Shape &shape)
        : Shape(shape), dim(query_dim + coords_dim), padded_dim(pad(dim)), padded_values(pad(n_values + 1)),
          padded_size(pad(block_size)) {}
};

// Allocates consecutive pieces of one buffer, each padded to whole registers.
struct Memory {
    float *begin; // aligned to a register, or null if only the length is computed
    int64_t length = 0;

    float *take(int64_t n_numbers) {
        float *piece = begin ? begin + length : nullptr;
        length += pad(n_numbers);
        return piece;
    }

    int32_t *take_integers(int64_t n_numbers) { return reinterpret_cast<int32_t *>(take(n_numbers)); }
};

// Positions of the points of one head in the blocks and in memory.
struct Layout {
    const int32_t *query_order, *key_order; // (N,) of the first table; the next table follows after `stride`
    int64_t stride;
    const int64_t *position;  // (K, S)
    const uint8_t *is_filled; // (K, S)
    int32_t *row;             // (N,) the row of each point

    // Rows are stored in the order of the first table. Points that share a block are then close in memory, in
    // most cases also for the other tables.
    Layout(const Sizes &of, const Inputs &in, int64_t head, Memory &memory)
        : query_order(in.query_order + head * of.n_points), key_order(in.key_order + head * of.n_points),
          stride(of.n_heads * of.n_points), position(in.position), is_filled(in.is_filled),
          row(memory.take_integers(of.n_points)) {
        if (row)
            for (int64_t i = 0; i < of.n_points; i++) row[query_order[i]] = static_cast<int32_t>(i);
    }
};

// Rows of the points of one head: queries with their coordinates (N, D), keys likewise, and [v, 1] (N, V).
struct Rows {
    float *query, *key, *value;

    Rows(const Sizes &of, Memory &memory)
        : query(memory.take(of.n_points * of.padded_dim)), key(memory.take(of.n_points * of.padded_dim)),
          value(memory.take(of.n_points * of.padded_values)) {}
};

// The rows of one block, and intermediate results.
struct Tile {
    int64_t length = 0;         // number of filled slots
    int32_t *q_rows, *k_rows;   // (S,)
    float *query, *key, *value; // (S, D), (S, D), (S, V)
    float *key_turned;          // (D, S), transposed
    float *weight;              // (PADDED, S), of a strip
    int64_t n_near = 0, n_near_registers = 0;
    int32_t *near;              // keys near any query of the strip
    int32_t *near_registers;    // first slots of the registers that contain such keys

    Tile(const Sizes &of, Memory &memory)
        : q_rows(memory.take_integers(of.padded_size)), k_rows(memory.take_integers(of.padded_size)),
          query(memory.take(of.padded_size * of.padded_dim)),
          key(memory.take(of.padded_size * of.padded_dim)),
          value(memory.take(of.padded_size * of.padded_values)),
          key_turned(memory.take(of.padded_dim * of.padded_size)),
          weight(memory.take(PADDED * of.padded_size)), near(memory.take_integers(of.padded_size)),
          near_registers(memory.take_integers(of.padded_size)) {}
};

struct BackwardTile : Tile {
    float *value_turned;    // (V, S), transposed
    float *d_sums;          // (S, V), gradient of [n, z]
    float *d_logit;         // (PADDED, S), of a strip
    float *d_key, *d_value; // (S, D), (S, V)

    BackwardTile(const Sizes &of, Memory &memory)
        : Tile(of, memory), value_turned(memory.take(of.padded_values * of.padded_size)),
          d_sums(memory.take(of.padded_size * of.padded_values)),
          d_logit(memory.take(PADDED * of.padded_size)), d_key(memory.take(of.padded_size * of.padded_dim)),
          d_value(memory.take(of.padded_size * of.padded_values)) {}
};

// All buffers of a forward pass.
struct Forward {
    Layout layout;
    Rows rows;
    Tile tile;
    float *sums;  // (N, V), [n, z]
    int64_t workspace; // total size in numbers

    Forward(const Sizes &of, const Inputs &in, int64_t head, Memory memory)
        : layout(of, in, head, memory), rows(of, memory), tile(of, memory),
          sums(memory.take(of.n_points * of.padded_values)), workspace(memory.length) {}
};

// All buffers of a backward pass.
struct Backward {
    Layout layout;
    Rows rows, grads;
    BackwardTile tile;
    float *d_sums; // (N, V)
    int64_t workspace;  // total size in numbers

    Backward(const Sizes &of, const Inputs &in, int64_t head, Memory memory)
        : layout(of, in, head, memory), rows(of, memory), grads(of, memory), tile(of, memory),
          d_sums(memory.take(of.n_points * of.padded_values)), workspace(memory.length) {}
};

// The same loops are compiled once for each instruction set.
#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_CHOICE
#ifdef __clang__
#pragma clang attribute push(                                                                                \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#endif
namespace avx512 {
constexpr int LANES = 16, STRIP = 8;
#include "native_blocks.h"
} // namespace avx512
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {
constexpr int LANES = 8, STRIP = 4;
#include "native_blocks.h"
} // namespace avx2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
namespace any {
constexpr int LANES = 4, STRIP = 4;
#include "native_blocks.h"
} // namespace any

struct Loops {
    int64_t lanes;
    decltype(&any::attend) attend;
    decltype(&any::backward) backward;
};

// The widest loops that this processor supports, with at most `most_lanes` lanes.
Loops choose_loops(int64_t most_lanes) {
#ifdef HAS_CHOICE
    __builtin_cpu_init();
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (most_lanes >= avx512::LANES && has_avx512 && has_avx2)
        return {avx512::LANES, avx512::attend, avx512::backward};
    if (most_lanes >= avx2::LANES && has_avx2) return {avx2::LANES, avx2::attend, avx2::backward};
#endif
    (void)most_lanes;
    return {any::LANES, any::attend, any::backward};
}

Loops LOOPS = choose_loops(PADDED);

// Call `work` for each head; threads take the next head as they become free.
template <typename Work> void over_heads(int64_t n_heads, int64_t n_threads, Work work) {
    struct Job {
        Work &work;
        int64_t n_heads;
        std::atomic<int64_t> next_head{0}, next_thread{0};

        static void run(void *self) {
            Job &job = *static_cast<Job *>(self);
            const int64_t thread = job.next_thread++;
            for (int64_t head; (head = job.next_head++) < job.n_heads;) job.work(head, thread);
        }
    } job{work, n_heads};
    // Use torch's threads, through the OpenMP library that it has loaded: they spin for milliseconds after each
    // operation, and other threads would compete with them. Without OpenMP, this thread does everything.
    using Parallel = void (*)(void (*)(void *), void *, unsigned, unsigned);
    static const auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    if (parallel && n_threads > 1)
        parallel(Job::run, &job, static_cast<unsigned>(n_threads), 0);
    else
        Job::run(&job);
}

} // namespace

extern "C" {

// Version of the interface below; native.py refuses a library of another version.
int64_t hept_interface() {
    return 2;
}

// Number of lanes of the loops in use.
int64_t hept_count_lanes() {
    return LOOPS.lanes;
}

// Use loops with at most `most_lanes` lanes, as on an older processor.
void hept_limit_lanes(int64_t most_lanes) {
    LOOPS = choose_loops(most_lanes);
}

// Size of the workspace of one thread, in numbers.
int64_t hept_count_workspace(const Shape *shape, int32_t is_backward) {
    const Sizes of(*shape);
    const Memory nowhere{nullptr};
    return is_backward ? Backward(of, Inputs{}, 0, nowhere).workspace : Forward(of, Inputs{}, 0, nowhere).workspace;
}

// Fill the outputs (N, H, V) and their normalisations (H, N). The workspace is for all threads together.
void hept_attend(
    const Shape *shape, const Inputs *in, int64_t n_threads, float epsilon, float *workspace, float *out,
    float *total) {
    const Sizes of(*shape);
    const int64_t size = hept_count_workspace(shape, false);
    over_heads(of.n_heads, n_threads, [&](int64_t head, int64_t thread) {
        LOOPS.attend(of, *in, head, epsilon, workspace + thread * size, out, total);
    });
}

// Fill the gradients of the inputs from the outputs' gradient (N, H, V), the outputs and their normalisations.
void hept_backward(
    const Shape *shape, const Inputs *in, int64_t n_threads, const float *grad, const float *out,
    const float *total, float *workspace, const Gradients *into) {
    const Sizes of(*shape);
    const int64_t size = hept_count_workspace(shape, true);
    over_heads(of.n_heads, n_threads, [&](int64_t head, int64_t thread) {
        LOOPS.backward(of, *in, head, grad, out, total, workspace + thread * size, *into);
    });
}

} // extern "C"
