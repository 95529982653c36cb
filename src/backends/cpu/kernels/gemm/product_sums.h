// Products on all threads, and the adding up of sums that several of them hold parts of. Internal to the kernels.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Sums of the parts of K: element (row, column) of part i is at data[i * stride + row * n + column].
struct PartialSums {
  float* data = nullptr;
  int64_t parts = 0;
  int64_t stride = 0;
  bool adds_c_last = false;  ///< a residual that is C itself, behind the parts, not behind the first
};

/// Where a row of C goes: over the sums of the first part where the epilogue stores it elsewhere.
inline float* finished_row(const CoreProblem& problem, const PartialSums& sums, int64_t row) {
  return problem.epilogue.store ? sums.data + row * problem.n : problem.c + row * problem.ldc;
}

/// C = epilogue(the parts' sums, added in order) for panels [begin, end) of those of all rows, one row after the other.
/// Of `problem` it takes the sizes, C, the epilogue and what the callback sees; C must have its rows one after the
/// other.
void finish_panels(const CoreProblem& problem, const PartialSums& sums, int64_t begin, int64_t end);
/// How many of them are worth waking a thread for.
int64_t finish_grain(int64_t parts);
/// The whole of C, on the threads that are worth waking.
void finish_sums(const CoreProblem& problem, const PartialSums& sums, ThreadPool& pool);

/// `groups` products like this one, as threads may cut them.
ProductShape shape_of_products(const CoreProblem& problem, int64_t groups, int threads);
/// Bytes that run_products needs for sums, for `threads` threads and fewer. Of `like` it takes the sizes, the words and
/// how rows are read.
int64_t product_sums_bytes(const CoreProblem& like, int64_t groups, int threads);

/// finish_sums() of `groups` products, whose sums of a part follow each other. with_problem(group, use) calls
/// use(const CoreProblem&), on any thread.
template <class WithProblem>
void finish_products(int64_t groups, int64_t m, int64_t n, const PartialSums& sums, const WithProblem& with_problem,
                     ThreadPool& pool) {
  const int64_t panels = m * packed_layout(1, n).panels();
  pool.parallel_for(groups * panels, finish_grain(sums.parts), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin / panels; group * panels < end; ++group) {
      const int64_t from = begin - group * panels, to = end - group * panels;
      with_problem(group, [&](const CoreProblem& problem) {
        finish_panels(problem, {sums.data + group * m * n, sums.parts, sums.stride}, from > 0 ? from : 0,
                      to < panels ? to : panels);
      });
    }
  });
}

/// The products of `shape` (shape_of_products), on the threads that are worth waking. `scratch`: core_workspace_bytes
/// for each thread of the pool; `sums`: product_sums_bytes, none where K is one block.
template <class WithProblem>
void run_products(const ProductShape& shape, const WithProblem& with_problem, ThreadPool& pool, char* scratch,
                  float* sums) {
  const ProductShares shares(shape, pool.size());
  const int64_t own = core_workspace_bytes(shape.m, shape.taps), parts = shares.k_blocks();
  const int64_t of_group = shape.m * shape.n, of_part = shape.groups * of_group;
  pool.run(shares.threads(), [&](int thread) {
    shares.for_each(thread, [&](const ProductPiece& piece) {
      with_problem(piece.group, [&](const CoreProblem& problem) {
        const Share& share = piece.share;
        CoreProblem p = problem;
        if (piece.k_block >= 0) {
          p.k_block = piece.k_block;
          p.c = sums + piece.k_block * of_part + piece.group * of_group;
          p.ldc = p.n;
          p.epilogue = {};
        }
        core_run(p, share.m0, share.m1, share.p0, share.p1, scratch + thread * own);
      });
    });
  });
  if (parts > 1) finish_products(shape.groups, shape.m, shape.n, {sums, parts, of_part}, with_problem, pool);
}

/// The same of one.
void run_product(const CoreProblem& problem, ThreadPool& pool, char* scratch, float* sums);

}  // namespace camshaft::cpu
