#include "backends/cpu/kernels/gemm/narrow_gemm.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/gemm/narrow_dots.h"
#include "backends/cpu/kernels/gemm/narrow_tile.h"
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

int64_t row_parts(const NarrowWeights& w) {
  return std::min(w.chunks(), row_product_parts(w.words.k, w.words.panels(), w.words.width));
}

// A thread's digits of all rows.
int64_t digits_bytes(const NarrowWeights& w, int64_t m) {
  return has_int8_dots() ? (NarrowDigits::bytes(w, m) + 63) / 64 * 64 : 0;
}

// A thread's floats of a panel.
int64_t panel_bytes(const NarrowWeights& w) {
  return (w.k * w.words.width * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
}

void multiply_few_rows(const NarrowGemm& args, ThreadPool& pool, char* workspace) {
  const NarrowWeights& w = *args.weights;
  const CoreProblem problem = core_problem(args);
  const int64_t panels = w.words.panels(), parts = row_parts(w), of_part = args.m * problem.n;
  // A thread is woken for 64 KiB of weights at least.
  constexpr int64_t least_words = int64_t{1} << 14;
  const int64_t most = std::max<int64_t>(1, w.words.k * panels * w.words.width / least_words);
  const int threads = static_cast<int>(std::min<int64_t>(pool.size(), most));
  const bool in_digits = has_int8_dots() && takes_digits(args);
  const int64_t own = digits_bytes(w, args.m);
  auto* sums = reinterpret_cast<float*>(workspace + own * pool.size());
  pool.run(threads, [&](int thread) {
    // Each makes them for itself: that takes less than waiting for another would.
    const NarrowDigits digits(w, args.m, workspace + own * thread);
    if (in_digits) make_digits(args, digits);
    const int64_t group = parts == 1 ? panels : 1;
    for_each_row_part(panels, group, parts, threads, thread, [&](int64_t part, int64_t first, int64_t end) {
      const int64_t begin = w.chunks() * part / parts, past = w.chunks() * (part + 1) / parts;
      for (int64_t panel = first; panel < end; ++panel) {
        cancellation_point();
        if (in_digits) {
          narrow_panel_dots(args, digits, panel, begin, past, sums + part * of_part);
        } else {
          narrow_panel_sums(args, panel, begin, past, sums + part * of_part);
        }
      }
      for (int64_t row = 0; parts == 1 && row < args.m; ++row)
        finish_panels(problem, {sums, 1, of_part}, row * panels + first, row * panels + end);
    });
  });
  if (parts > 1) finish_sums(problem, {sums, parts, of_part}, pool);
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

}  // namespace

int64_t narrow_gemm_workspace_bytes(const NarrowWeights& w, int64_t m, int threads) {
  if (m == 0 || w.words.n == 0) return 0;
  if (m <= kFewNarrowRows)
    return digits_bytes(w, m) * threads + row_parts(w) * m * w.words.n * static_cast<int64_t>(sizeof(float));
  return (core_workspace_bytes(m, 1) + panel_bytes(w)) * threads;
}

void narrow_gemm(const NarrowGemm& args, ThreadPool& pool, void* workspace) {
  if (args.m == 0 || args.weights->words.n == 0) return;
  if (args.m <= kFewNarrowRows) return multiply_few_rows(args, pool, static_cast<char*>(workspace));
  multiply_widened(args, pool, static_cast<char*>(workspace));
}

}  // namespace camshaft::cpu
