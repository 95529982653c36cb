#include "backends/cpu/kernels/gemm/narrow_gemm.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/gemm/narrow_dots.h"
#include "backends/cpu/kernels/gemm/narrow_rounded.h"
#include "backends/cpu/kernels/gemm/narrow_tile.h"
#include "backends/cpu/kernels/gemm/narrow_tiles.h"
#include "backends/cpu/kernels/gemm/product_sums.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {
namespace {

CoreProblem core_problem(const NarrowGemm& args) {
  CoreProblem p;
  p.m = args.m;
  p.n = args.weights->words.n;
  p.depth = args.weights->k;
  p.rows.base = args.a;
  p.rows.row_stride = args.lda;
  p.c = args.c;
  p.ldc = args.ldc;
  p.epilogue = args.epilogue;
  return p;
}

// The product with one panel's columns, from column `first` on.
CoreProblem of_columns(const CoreProblem& all, int64_t first, int64_t columns) {
  CoreProblem p = all;
  p.n = columns;
  p.c += first;
  p.callback_col0 += first;
  Epilogue& e = p.epilogue;
  if (e.bias) e.bias += first;
  if (e.residual) e.residual += first;
  for (Residual& more : e.more_residuals)
    if (more.data) more.data += first;
  if (e.addend) e.addend += first;
  return p;
}

// Rows [row0, row1) of that.
CoreProblem of_rows(const CoreProblem& all, int64_t row0, int64_t row1) {
  CoreProblem p = all;
  p.m = row1 - row0;
  p.c += row0 * p.ldc;
  p.callback_row0 += row0;
  Epilogue& e = p.epilogue;
  if (e.residual) e.residual += row0 * e.residual_ld;
  for (Residual& more : e.more_residuals)
    if (more.data) more.data += row0 * more.ld;
  if (e.addend) e.addend += row0 * e.addend_ld;
  return p;
}

// What few rows are cut into along K: chunks, or, of rounded rows, segments.
int64_t units_of_k(const NarrowWeights& w, bool in_bytes) {
  return in_bytes ? RoundedRows::segments(w) : w.chunks();
}

int64_t row_parts(const NarrowWeights& w, bool in_bytes) {
  return std::min(units_of_k(w, in_bytes), row_product_parts(w.words.k, w.words.panels(), w.words.width));
}

// A thread's digits or bytes of all rows.
int64_t own_rows_bytes(const NarrowWeights& w, int64_t m, bool in_bytes) {
  if (in_bytes) return RoundedRows::bytes(w, m);
  return has_int8_dots() ? (NarrowDigits::bytes(w, m) + 63) / 64 * 64 : 0;
}

// A thread's floats of a panel.
int64_t panel_bytes(const NarrowWeights& w) {
  return (w.k * w.words.width * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
}

void multiply_few_rows(const NarrowGemm& args, ThreadPool& pool, char* workspace) {
  const NarrowWeights& w = *args.weights;
  const CoreProblem problem = core_problem(args);
  const int64_t panels = w.words.panels(), of_part = args.m * problem.n, n = problem.n;
  const int64_t units = units_of_k(w, args.rounded), parts = row_parts(w, args.rounded);
  // A thread is woken for 64 KiB of weights at least.
  constexpr int64_t least_words = int64_t{1} << 14;
  const int64_t most = std::max<int64_t>(1, w.words.k * panels * w.words.width / least_words);
  const int threads = static_cast<int>(std::min<int64_t>(pool.size(), most));
  const bool in_digits = !args.rounded && has_int8_dots() && takes_digits(args);
  const int64_t own = own_rows_bytes(w, args.m, args.rounded);
  auto* sums = reinterpret_cast<float*>(workspace + own * pool.size());
  pool.run(threads, [&](int thread) {
    const int64_t group = parts == 1 ? panels : 1;
    const auto multiply = [&](const auto& panel_sums) {
      for_each_row_part(panels, group, parts, threads, thread, [&](int64_t part, int64_t first, int64_t end) {
        const int64_t begin = units * part / parts, past = units * (part + 1) / parts;
        for (int64_t panel = first; panel < end; ++panel) {
          cancellation_point();
          panel_sums(panel, begin, past, sums + part * of_part);
        }
        for (int64_t row = 0; parts == 1 && row < args.m; ++row)
          finish_panels(problem, {sums, 1, of_part}, row * panels + first, row * panels + end);
      });
    };
    // Each makes digits and bytes for itself: that takes less than waiting for another would.
    if (args.rounded) {
      const RoundedRows rows(w, args.m, workspace + own * thread);
      round_rows(args, rows, 0, args.m);
      multiply([&](int64_t panel, int64_t begin, int64_t end, float* to) {
        rounded_panel_sums(args, rows, panel, {begin, end}, 0, args.m, to + panel * w.words.width, n);
      });
    } else if (in_digits) {
      const NarrowDigits digits(w, args.m, workspace + own * thread);
      make_digits(args, digits);
      multiply([&](int64_t panel, int64_t begin, int64_t end, float* to) {
        narrow_panel_dots(args, digits, panel, begin, end, to);
      });
    } else {
      multiply([&](int64_t panel, int64_t begin, int64_t end, float* to) {
        narrow_panel_sums(args, panel, begin, end, to);
      });
    }
  });
  if (parts > 1) finish_sums(problem, {sums, parts, of_part, args.rounded}, pool);
}

// Of many rounded rows a thread takes so many at a time, with panels that stay in its L2 beside them while all of its
// rows pass over them.
constexpr int64_t kRowsAtOnce = 96;

int64_t panels_at_once(const NarrowWeights& w) {
  constexpr int64_t bytes = int64_t{1} << 17;
  return std::clamp<int64_t>(bytes / (w.words.k * w.words.width * 4), 1, 8);
}

// A thread's sums of these.
int64_t block_sums_bytes(const NarrowWeights& w) {
  return kRowsAtOnce * panels_at_once(w) * w.words.width * static_cast<int64_t>(sizeof(float));
}

// Of a thread: those, and bytes of codes for tiles.
int64_t own_block_bytes(const NarrowWeights& w, int64_t m) {
  return block_sums_bytes(w) + (narrow_may_take_tiles(w, m) ? round_up(tile_codes_bytes(w), 64) : 0);
}

// Few enough rows that each thread had better read them all and share the weights.
Share rounded_share(const NarrowGemm& args, int threads, int thread) {
  const int64_t panels = args.weights->words.panels();
  if (args.m <= kRowsAtOnce / 2 && panels >= threads)
    return {0, args.m, panels * thread / threads, panels * (thread + 1) / threads};
  return core_share(args.m, args.weights->words.n, 1, threads, thread);
}

void multiply_rounded(const NarrowGemm& args, ThreadPool& pool, char* workspace) {
  const NarrowWeights& w = *args.weights;
  const CoreProblem problem = core_problem(args);
  const RoundedRows rows(w, args.m, workspace);
  char* scratch = workspace + RoundedRows::bytes(w, args.m);
  // A thread is woken for 16 KiB of them at least.
  pool.parallel_for(args.m, 4096 / w.k + 1, [&](int64_t begin, int64_t end) { round_rows(args, rows, begin, end); });
  const int threads = pool.size();
  const bool by_tiles = narrow_takes_tiles(args);
  // Bytes of a panel's codes are made once.
  const int64_t group = by_tiles ? 1 : panels_at_once(w), segments = RoundedRows::segments(w);
  const int64_t parts = row_parts(w, true);
  pool.run(threads, [&](int thread) {
    char* const own = scratch + thread * own_block_bytes(w, args.m);
    auto* sums = reinterpret_cast<float*>(own);
    auto* codes = reinterpret_cast<int8_t*>(own + block_sums_bytes(w));
    MatrixTiles tiles(by_tiles ? byte_matrix_unit() : MatrixUnit::none);
    const Share share = rounded_share(args, threads, thread);
    for (int64_t p0 = share.p0; p0 < share.p1; p0 += group) {
      const int64_t p1 = std::min(share.p1, p0 + group), first = p0 * w.words.width;
      const int64_t columns = std::min(problem.n, p1 * w.words.width) - first;
      if (by_tiles && share.m0 < share.m1) make_tile_codes(args, p0, codes);
      for (int64_t m0 = share.m0; m0 < share.m1; m0 += kRowsAtOnce) {
        cancellation_point();
        const int64_t m1 = std::min(share.m1, m0 + kRowsAtOnce);
        // By the parts that few rows have, which are added up in the same order: a row has the same bits beside few
        // and many others.
        for (int64_t panel = p0; panel < p1; ++panel)
          for (int64_t i = 0; i < parts; ++i) {
            const RoundedPart part{segments * i / parts, segments * (i + 1) / parts, i > 0};
            float* const to = sums + (panel - p0) * w.words.width;
            if (by_tiles)
              tile_panel_sums(args, rows, panel, codes, part, m0, m1, to, columns, tiles);
            else
              rounded_panel_sums(args, rows, panel, part, m0, m1, to, columns);
          }
        const CoreProblem block = of_rows(of_columns(problem, first, columns), m0, m1);
        finish_panels(block, {sums, 1, 0}, 0, (m1 - m0) * (p1 - p0));
      }
    }
  });
}

void multiply_widened(const NarrowGemm& args, ThreadPool& pool, char* workspace) {
  const NarrowWeights& w = *args.weights;
  const CoreProblem problem = core_problem(args);
  const int64_t scratch = core_workspace_bytes(args.m, 1), own = scratch + panel_bytes(w);
  const int threads = pool.size();
  pool.run(threads, [&](int thread) {
    char* memory = workspace + thread * own;
    auto* floats = reinterpret_cast<float*>(memory + scratch);
    const Share share = core_share(args.m, problem.n, 1, threads, thread);
    for (int64_t panel = share.p0; share.m0 < share.m1 && panel < share.p1; ++panel) {
      widen_narrow_panel(args, panel, floats);
      const int64_t first = panel * w.words.width, columns = std::min<int64_t>(w.words.width, problem.n - first);
      CoreProblem p = of_columns(problem, first, columns);
      p.packed_b = floats;
      core_run(p, share.m0, share.m1, 0, 1, memory);
    }
  });
}

// Of rows that are rounded as floats.
int64_t float_rows_bytes(const NarrowWeights& w, int64_t m) {
  return (m * w.k * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
}

}  // namespace

int64_t narrow_gemm_workspace_bytes(const NarrowWeights& w, int64_t m, int threads, bool rounded) {
  if (m == 0 || w.words.n == 0) return 0;
  if (rounded && !has_byte_products())
    return float_rows_bytes(w, m) + narrow_gemm_workspace_bytes(w, m, threads, false);
  if (m <= kFewNarrowRows)
    return own_rows_bytes(w, m, rounded) * threads +
           row_parts(w, rounded) * m * w.words.n * static_cast<int64_t>(sizeof(float));
  if (rounded) return RoundedRows::bytes(w, m) + own_block_bytes(w, m) * threads;
  return (core_workspace_bytes(m, 1) + panel_bytes(w)) * threads;
}

void narrow_gemm(const NarrowGemm& args, ThreadPool& pool, void* workspace) {
  if (args.m == 0 || args.weights->words.n == 0) return;
  auto* memory = static_cast<char*>(workspace);
  if (args.rounded && !has_byte_products()) {
    NarrowGemm floats = args;
    auto* rows = reinterpret_cast<float*>(memory);
    pool.parallel_for(args.m, 4096 / args.weights->k + 1,
                      [&](int64_t begin, int64_t end) { round_rows_to_floats(args, rows, begin, end); });
    floats.a = rows;
    floats.lda = args.weights->k;
    floats.rounded = false;
    return narrow_gemm(floats, pool, memory + float_rows_bytes(*args.weights, args.m));
  }
  if (args.m <= kFewNarrowRows) return multiply_few_rows(args, pool, memory);
  if (args.rounded) return multiply_rounded(args, pool, memory);
  multiply_widened(args, pool, memory);
}

}  // namespace camshaft::cpu
