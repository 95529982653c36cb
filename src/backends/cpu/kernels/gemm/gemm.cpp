#include "backends/cpu/kernels/gemm/gemm.h"

#include <algorithm>
#include <optional>

#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/gemv.h"
#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "backends/cpu/kernels/gemm/pack_internal.h"
#include "backends/cpu/kernels/gemm/product_sums.h"
#include "backends/cpu/kernels/gemm/thin_gemm.h"
#include "backends/cpu/kernels/gemm/unpacked_gemm.h"
#include "backends/cpu/kernels/move/transpose_tile.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {
namespace {

char* at(void* memory, int64_t bytes) {
  return static_cast<char*>(memory) + bytes;
}

// Packed copies of B start at cache lines.
int64_t packed_stride(const PackedLayout& layout) {
  return (layout.floats() + 15) / 16 * 16;
}

const float* offset(const float* base, const BatchGemmArgs& args, int64_t i, int64_t outer, int64_t inner) {
  return base + i / args.inner_batch * outer + i % args.inner_batch * inner;
}

CoreProblem core_problem(const GemmArgs& args) {
  CoreProblem p;
  p.m = args.m;
  p.n = args.n;
  p.depth = args.k;
  p.words = args.words;
  p.rows.base = args.a;
  p.rows.row_stride = args.lda;
  p.packed_b = args.packed_b;
  p.c = args.c;
  p.ldc = args.ldc;
  p.epilogue = args.epilogue;
  p.batch_invariant = args.batch_invariant;
  return p;
}

// Equal parts of K, but for the last one, of a product of one row.
struct RowParts {
  int64_t k = 0, count = 1, depth = 0;  // depth: of parts that are the blocks of many rows

  explicit RowParts(const GemmArgs& args) : k(args.k) {
    if (args.batch_invariant) {
      depth = core_block_depth(k);
      count = std::max<int64_t>(1, divide_up(k, depth));
    } else {
      const PackedLayout layout = packed_layout(k, args.n);
      count = row_product_parts(k, layout.panels(), layout.width);
    }
  }
  int64_t begin(int64_t part) const { return depth > 0 ? std::min(k, part * depth) : k * part / count; }
};

void multiply_row(const GemmArgs& args, ThreadPool& pool, float* sums) {
  const PackedLayout layout = packed_layout(args.k, args.n);
  const RowParts of_k(args);
  const int64_t panels = layout.panels(), parts = of_k.count;
  // A thread is woken for 64 KiB of weights at least.
  constexpr int64_t least_floats = int64_t{1} << 14;
  if (parts == 1) {
    GemmArgs row = args;
    if (args.epilogue.store) row.c = sums;
    const int64_t grain = least_floats / (std::max<int64_t>(1, args.k) * layout.width) + 1;
    pool.parallel_for(panels, grain, [&](int64_t begin, int64_t end) { gemv(row, begin, end); });
    return;
  }
  const int64_t most = std::max<int64_t>(1, args.k * panels * layout.width / least_floats);
  const int threads = static_cast<int>(std::min<int64_t>(pool.size(), most));
  pool.run(threads, [&](int thread) {
    for_each_row_part(panels, gemv_streams, parts, threads, thread, [&](int64_t part, int64_t first, int64_t end) {
      gemv_part(args, of_k.begin(part), of_k.begin(part + 1), first, end, sums + part * args.n);
    });
  });
  finish_sums(core_problem(args), {sums, parts, args.n}, pool);
}

// Whether all threads pack all of B, and then all multiply: where the products are too few for each thread to take an
// even part of their tiles.
bool packs_all(const BatchGemmArgs& args, int threads) {
  const int64_t tiles = args.batch * divide_up(args.m, core_tile_rows());
  return threads > 1 && (args.batch < threads || tiles * 20 < divide_up(tiles, threads) * threads * 17);
}

// Rows of C that are computed together, and the threads that are worth waking for them.
struct ThinCut {
  int64_t rows = 0, blocks = 0;  // of each element of the batch
  int threads = 1;

  ThinCut(int64_t batch, int64_t m, int64_t n, int64_t k, int most) {
    constexpr int64_t block = 1 << 14, least_products = 1 << 15;
    rows = std::clamp<int64_t>(block / n, 16, 1024);
    blocks = divide_up(m, rows);
    threads = static_cast<int>(std::clamp<int64_t>(batch * m * n * k / least_products, 1, most));
  }
};

// What follows the sums of a block of C in cache.
void finish_block(const Epilogue& e, float* c, int64_t ldc, int64_t addend_offset, int64_t row0, int64_t rows,
                  int64_t columns) {
  if (e.activation)
    core_activate(*e.activation, {c, ldc, rows, columns, e.addend ? e.addend + addend_offset : nullptr, e.addend_ld});
  if (e.callback) e.callback(e.context, row0, rows, 0, columns);
}

// Rows by tiles took three times as long as writing C: 3480 x 4 by 4 x 11 6 us.
constexpr int64_t least_thin_rows = 9;
bool takes_thin(const GemmArgs& args) {
  return args.words == Words::f32 && !args.batch_invariant && args.m >= least_thin_rows && is_thin(args.k, args.n) &&
         !args.epilogue.more_residuals[0].data && !args.epilogue.store;
}
bool takes_thin(const BatchGemmArgs& args) {
  // A column by A's columns is a row by contiguous rows (as_row).
  const bool is_column = args.n == 1 && args.a_row_stride == 1;
  return args.m >= least_thin_rows && is_thin(args.k, args.n) && args.b_n_stride == 1 && !is_column;
}

void thin_gemm(const GemmArgs& args, ThreadPool& pool) {
  const PackedLayout layout = packed_layout(args.k, args.n);
  const Epilogue& e = args.epilogue;
  const ThinCut cut(1, args.m, args.n, args.k, pool.size());
  pool.run(cut.threads, [&](int thread) {
    PacedCancellation cancellation;
    for (int64_t i = cut.blocks * thread / cut.threads; i < cut.blocks * (thread + 1) / cut.threads; ++i) {
      const int64_t row = i * cut.rows, rows = std::min(cut.rows, args.m - row);
      cancellation.did(rows * args.n * args.k);
      for (int64_t p = 0; p < layout.panels(); ++p) {
        const int64_t col = p * layout.width;
        ThinProduct t{.a = args.a + row * args.lda, .a_row_stride = args.lda, .a_k_stride = 1};
        t.b = args.packed_b + layout.offset(p), t.b_k_stride = layout.columns(p);
        t.k = args.k, t.n = std::min<int64_t>(layout.width, args.n - col);
        t.c = args.c + row * args.ldc + col, t.c_row_stride = args.ldc;
        if (e.bias) t.bias = e.bias + col;
        if (e.residual) t.residual = e.residual + row * e.residual_ld + col, t.residual_row_stride = e.residual_ld;
        t.lo = e.lo, t.hi = e.hi;
        thin_product(t, rows);
      }
      finish_block(e, args.c + row * args.ldc, args.ldc, row * e.addend_ld, row, rows, args.n);
    }
  });
}

void thin_gemm(const BatchGemmArgs& args, ThreadPool& pool) {
  const ThinCut cut(args.batch, args.m, args.n, args.k, pool.size());
  const int64_t units = args.batch * cut.blocks;
  pool.run(cut.threads, [&](int thread) {
    PacedCancellation cancellation;
    for (int64_t i = units * thread / cut.threads; i < units * (thread + 1) / cut.threads; ++i) {
      const int64_t row = i % cut.blocks * cut.rows, rows = std::min(cut.rows, args.m - row);
      const CoreProblem p = batch_element(args, i / cut.blocks, nullptr);
      const Epilogue& e = p.epilogue;
      cancellation.did(rows * args.n * args.k);
      ThinProduct t{.a = p.rows.base + row * p.rows.row_stride, .a_row_stride = p.rows.row_stride};
      t.a_k_stride = p.rows.k_stride;
      t.b = offset(args.b, args, i / cut.blocks, args.b_outer_stride, args.b_inner_stride);
      t.b_k_stride = args.b_k_stride;
      t.k = args.k, t.n = args.n;
      t.c = p.c + row * p.ldc, t.c_row_stride = p.ldc;
      t.bias = e.bias;
      if (e.residual) t.residual = e.residual + row * e.residual_ld, t.residual_row_stride = e.residual_ld;
      t.lo = e.lo, t.hi = e.hi;
      thin_product(t, rows);
      finish_block(e, t.c, p.ldc, row * e.addend_ld, p.callback_row0 + row, rows, args.n);
    }
  });
}

// One column as one row of the transposed product, which unpacked_gemm reads in place: 256 products of 64 x 9 with a
// column took 102 us packed, as panels of 16 columns, and take 10.
std::optional<BatchGemmArgs> as_row(const BatchGemmArgs& args) {
  const Epilogue& e = args.epilogue;
  if (args.n != 1 || args.c_row_stride != 1 || e.bias || e.activation || e.callback) return std::nullopt;
  BatchGemmArgs row = args;
  row.m = 1;
  row.n = args.m;
  row.a = args.b;
  row.a_row_stride = 0;
  row.a_k_stride = args.b_k_stride;
  row.a_outer_stride = args.b_outer_stride;
  row.a_inner_stride = args.b_inner_stride;
  row.b = args.a;
  row.b_k_stride = args.a_k_stride;
  row.b_n_stride = args.a_row_stride;
  row.b_outer_stride = args.a_outer_stride;
  row.b_inner_stride = args.a_inner_stride;
  row.c_row_stride = args.m;
  return is_read_unpacked(row) ? std::optional(row) : std::nullopt;
}

}  // namespace

CoreProblem batch_element(const BatchGemmArgs& args, int64_t i, const float* packed) {
  CoreProblem p;
  p.m = args.m;
  p.n = args.n;
  p.depth = args.k;
  p.rows.base = offset(args.a, args, i, args.a_outer_stride, args.a_inner_stride);
  p.rows.row_stride = args.a_row_stride;
  p.rows.k_stride = args.a_k_stride;
  p.packed_b = packed;
  const int64_t c_offset = i / args.inner_batch * args.c_outer_stride + i % args.inner_batch * args.c_inner_stride;
  p.c = args.c + c_offset;
  p.ldc = args.c_row_stride;
  p.epilogue = args.epilogue;
  p.epilogue.residual_ld = args.c_row_stride;
  if (args.epilogue.residual) p.epilogue.residual = args.epilogue.residual + c_offset;
  p.epilogue.addend_ld = args.c_row_stride;
  if (args.epilogue.addend) p.epilogue.addend = args.epilogue.addend + c_offset;
  p.callback_row0 = i * args.m;
  return p;
}

// Whether one row is multiplied by gemv.h: pairs where vectors do that.
static bool is_row(const GemmArgs& args) {
  return args.m == 1 && (args.words == Words::f32 || has_bf16_pairs()) &&
         !(args.batch_invariant && core_runs_dots(core_problem(args)));
}

int64_t gemm_workspace_bytes(int64_t m, int64_t n, int64_t k, int threads, bool batch_invariant) {
  if (m == 0 || n == 0) return 0;
  GemmArgs args;
  args.m = m, args.n = n, args.k = k, args.batch_invariant = batch_invariant;
  // One part goes there where the epilogue stores, which need not be known yet.
  const int64_t of_row = m == 1 ? RowParts(args).count * n * static_cast<int64_t>(sizeof(float)) : 0;
  const bool always_row = is_row(args) && (has_bf16_pairs() || pair_matrix_unit() == MatrixUnit::none);
  if (always_row) return of_row;
  // Of words of either kind.
  int64_t sums = 0;
  for (const Words words : {Words::f32, Words::bf16_pairs}) {
    args.words = words;
    sums = std::max(sums, product_sums_bytes(core_problem(args), 1, threads));
  }
  return std::max(of_row, core_workspace_bytes(m, 1) * threads + sums);
}

void gemm(const GemmArgs& args, ThreadPool& pool, void* workspace) {
  if (args.m == 0 || args.n == 0) return;
  if (is_row(args)) return multiply_row(args, pool, static_cast<float*>(workspace));
  if (takes_thin(args)) return thin_gemm(args, pool);
  const int64_t scratch_bytes = core_workspace_bytes(args.m, 1) * pool.size();
  run_product(core_problem(args), pool, static_cast<char*>(workspace),
              reinterpret_cast<float*>(at(workspace, scratch_bytes)));
}

namespace {

// Where columns of A lie together, register tiles read it a cache line a row of K: it is turned first (316 x 316 by 316
// x 316 took 775 us, and 565 with an A that lies in rows; 512 x 128 by 128 x 16 143, and 41).
bool turns_a(const BatchGemmArgs& args) {
  return args.a_k_stride != 1 && args.a_row_stride == 1 && args.m > 1 && args.k > 1;
}

BatchGemmArgs with_turned_a(const BatchGemmArgs& args, const float* turned) {
  BatchGemmArgs straight = args;
  straight.a = turned;
  straight.a_row_stride = args.k;
  straight.a_k_stride = 1;
  straight.a_inner_stride = args.m * args.k;
  straight.a_outer_stride = args.inner_batch * straight.a_inner_stride;
  return straight;
}

int64_t packed_workspace_bytes(const BatchGemmArgs& args, int threads) {
  int64_t copies = 0;
  bool together = false;
  for (int t = 1; t <= threads; ++t) {
    const bool all = packs_all(args, t);
    together = together || all;
    copies = std::max<int64_t>(copies, all ? args.batch : t);
  }
  const int64_t bytes = core_workspace_bytes(args.m, 1) * threads +
                        packed_stride(packed_layout(args.k, args.n)) * 4 * copies +
                        (together ? product_sums_bytes(batch_element(args, 0, nullptr), args.batch, threads) : 0);
  // The epilogue, which decides between the two, need not be known yet.
  const auto row = as_row(args);
  return row ? std::max(bytes, unpacked_gemm_workspace_bytes(*row)) : bytes;
}

// Of A in rows, behind which the copy of it lies.
int64_t turned_workspace_bytes(const BatchGemmArgs& args, int threads) {
  return round_up(packed_workspace_bytes(with_turned_a(args, nullptr), threads), 64);
}

}  // namespace

void turn_a(const BatchGemmArgs& args, float* turned, ThreadPool& pool) {
  constexpr int64_t width = sizeof(float), rows = 64;  // that a thread turns at once
  const int64_t blocks = divide_up(args.m, rows), least_blocks = divide_up(int64_t{1} << 13, rows * args.k);
  pool.parallel_for(args.batch * blocks, least_blocks, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t element = i / blocks, row = i % blocks * rows;
      const float* from = offset(args.a, args, element, args.a_outer_stride, args.a_inner_stride) + row;
      transpose_2d(width, {std::min(rows, args.m - row), args.k, args.a_k_stride * width, args.k * width},
                   reinterpret_cast<const char*>(from),
                   reinterpret_cast<char*>(turned + (element * args.m + row) * args.k));
    }
  });
}

int64_t batch_gemm_workspace_bytes(const BatchGemmArgs& args, int threads) {
  if (args.batch == 0 || args.m == 0 || args.n == 0) return 0;
  if (takes_thin(args)) return 0;
  if (is_read_unpacked(args)) return unpacked_gemm_workspace_bytes(args);
  if (!turns_a(args)) return packed_workspace_bytes(args, threads);
  return turned_workspace_bytes(args, threads) + args.batch * args.m * args.k * static_cast<int64_t>(sizeof(float));
}

void batch_gemm(const BatchGemmArgs& args, ThreadPool& pool, void* workspace) {
  if (args.batch == 0 || args.m == 0 || args.n == 0) return;
  if (takes_thin(args)) return thin_gemm(args, pool);
  if (is_read_unpacked(args)) return unpacked_gemm(args, pool, workspace);
  if (const auto row = as_row(args)) return unpacked_gemm(*row, pool, workspace);
  if (turns_a(args)) {
    auto* const turned = reinterpret_cast<float*>(at(workspace, turned_workspace_bytes(args, pool.size())));
    turn_a(args, turned, pool);
    return batch_gemm(with_turned_a(args, turned), pool, workspace);
  }
  const PackedLayout layout = packed_layout(args.k, args.n);
  const int64_t packed_floats = packed_stride(layout);
  const int64_t scratch = core_workspace_bytes(args.m, 1);
  const int threads = pool.size();
  float* packed = reinterpret_cast<float*>(at(workspace, scratch * threads));

  if (packs_all(args, threads)) {
    const int64_t panels = layout.panels();
    pool.parallel_for(args.batch * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t element = i / panels;
        pack_panel(layout, i % panels, offset(args.b, args, element, args.b_outer_stride, args.b_inner_stride),
                   args.b_k_stride, args.b_n_stride, packed + element * packed_floats);
      }
    });
    return run_products(
        shape_of_products(batch_element(args, 0, packed), args.batch, threads),
        [&](int64_t i, const auto& use) { use(batch_element(args, i, packed + i * packed_floats)); }, pool,
        static_cast<char*>(workspace), packed + args.batch * packed_floats);
  }

  // Each thread takes an even part of all rows and packs the B of every element that it touches: at most one B a thread
  // is packed twice, and no barrier is needed.
  const int64_t tile = core_tile_rows(), tiles = divide_up(args.m, tile);
  pool.run([&](int thread) {
    const int64_t begin = args.batch * tiles * thread / threads;
    const int64_t end = args.batch * tiles * (thread + 1) / threads;
    float* own = packed + thread * packed_floats;
    const float* packed_from = nullptr;
    for (int64_t i = begin / tiles; i * tiles < end; ++i) {
      const int64_t m0 = std::min(args.m, std::max<int64_t>(0, begin - i * tiles) * tile);
      const int64_t m1 = std::min(args.m, (end - i * tiles) * tile);
      const float* b = offset(args.b, args, i, args.b_outer_stride, args.b_inner_stride);
      if (b != packed_from) pack_b(layout, b, args.b_k_stride, args.b_n_stride, own);
      packed_from = b;
      core_run(batch_element(args, i, own), m0, m1, 0, layout.panels(), at(workspace, thread * scratch));
    }
  });
}

}  // namespace camshaft::cpu
