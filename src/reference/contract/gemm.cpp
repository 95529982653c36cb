#include "reference/contract/gemm.h"

#include <algorithm>
#include <atomic>

#include "base/aligned_buffer.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"
#include "reference/contract/product_tiles.h"

namespace camshaft::ops {

namespace {

// One block of C and the packed blocks of A and B that go into it: about a core's second-level cache in all.
constexpr int64_t block_rows = 192, block_columns = 288, block_depth = 128;

template <class T>
class Worker {
 public:
  Worker(const GemmProblem<T>& problem, const PackedTile<T>& kernel, int64_t rows, int64_t columns)
      : problem_(problem),
        kernel_(kernel),
        rows_(rows),
        columns_(columns),
        a_(room(rows * block_depth)),
        b_(room(columns * block_depth)),
        c_(room(rows * columns)),
        run_(room(std::max(columns, block_depth))) {}

  void block(int64_t batch, int64_t row, int64_t column) {
    const int64_t rows = std::min(rows_, problem_.m - row), columns = std::min(columns_, problem_.n - column);
    const int64_t padded_rows = round_up(rows, kernel_.rows), padded_columns = round_up(columns, kernel_.columns);
    std::fill_n(at(c_, 0), padded_rows * columns_, T{});
    for (int64_t depth = 0; depth < problem_.k; depth += block_depth) {
      cancellation_point();
      const int64_t count = std::min(block_depth, problem_.k - depth);
      pack_a(batch, row, rows, depth, count);
      pack_b(batch, column, columns, depth, count);
      for (int64_t j = 0; j < padded_columns; j += kernel_.columns)
        for (int64_t i = 0; i < padded_rows; i += kernel_.rows)
          kernel_.run(count, at(a_, i * count), at(b_, j * count), at(c_, i * columns_ + j), columns_);
    }
    for (int64_t i = 0; i < rows; ++i) problem_.store(batch, row + i, column, columns, at(c_, i * columns_));
  }

 private:
  // Aligned for whole vectors: half of them would lie across two cache lines.
  static AlignedBuffer room(int64_t elements) {
    return {static_cast<size_t>(elements) * sizeof(T), "a block of a matrix product"};
  }
  static T* at(AlignedBuffer& room, int64_t element) { return reinterpret_cast<T*>(room.data()) + element; }

  // Panels of kernel_.rows rows, each [depth][rows]; rows beyond the matrix are zero.
  void pack_a(int64_t batch, int64_t row, int64_t rows, int64_t depth, int64_t count) {
    const int64_t height = kernel_.rows;
    T* const run = at(run_, 0);
    for (int64_t i = 0; i < round_up(rows, height); ++i) {
      T* target = at(a_, i / height * height * count + i % height);
      if (i < rows) {
        problem_.load_a(batch, row + i, depth, count, run);
      } else {
        std::fill_n(run, count, T{});
      }
      for (int64_t p = 0; p < count; ++p) target[p * height] = run[p];
    }
  }

  // Panels of kernel_.columns columns, each [depth][columns].
  void pack_b(int64_t batch, int64_t column, int64_t columns, int64_t depth, int64_t count) {
    const int64_t width = kernel_.columns, padded = round_up(columns, width);
    T* const run = at(run_, 0);
    for (int64_t p = 0; p < count; ++p) {
      problem_.load_b(batch, depth + p, column, columns, run);
      std::fill(run + columns, run + padded, T{});
      for (int64_t j = 0; j < padded; j += width) std::copy_n(run + j, width, at(b_, j * count + p * width));
    }
  }

  const GemmProblem<T>& problem_;
  const PackedTile<T>& kernel_;
  const int64_t rows_, columns_;
  AlignedBuffer a_, b_, c_, run_;
};

}  // namespace

template <class T>
void solve(const GemmProblem<T>& problem, ThreadPool& pool, size_t kernel_index) {
  if (problem.m <= 0 || problem.n <= 0 || problem.batches <= 0) return;
  const PackedTile<T>& kernel = packed_tiles<T>(problem.exact_products).at(kernel_index);
  int64_t rows = std::min(block_rows, round_up(problem.m, kernel.rows));
  int64_t columns = std::min(block_columns, round_up(problem.n, kernel.columns));
  // Smaller blocks where there would be too few for the threads.
  while (problem.batches * divide_up(problem.m, rows) * divide_up(problem.n, columns) < 3 * pool.size()) {
    if (rows > columns && rows > 4 * kernel.rows) {
      rows = round_up(rows / 2, kernel.rows);
    } else if (columns > 2 * kernel.columns) {
      columns = round_up(columns / 2, kernel.columns);
    } else if (rows > 2 * kernel.rows) {
      rows = round_up(rows / 2, kernel.rows);
    } else {
      break;
    }
  }
  const int64_t down = divide_up(problem.m, rows), across = divide_up(problem.n, columns);
  const int64_t total = problem.batches * down * across;
  std::atomic<int64_t> next{0};
  pool.run([&](int) {
    int64_t task = next.fetch_add(1, std::memory_order_relaxed);
    if (task >= total) return;
    Worker<T> worker(problem, kernel, rows, columns);
    for (; task < total; task = next.fetch_add(1, std::memory_order_relaxed)) {
      const int64_t row = task % down, column = task / down % across;
      worker.block(task / (down * across), row * rows, column * columns);
    }
  });
}

template void solve(const GemmProblem<double>&, ThreadPool&, size_t);
template void solve(const GemmProblem<uint32_t>&, ThreadPool&, size_t);
template void solve(const GemmProblem<uint64_t>&, ThreadPool&, size_t);

size_t gemm_kernel_count() {
  return packed_tiles<double>(false).size();
}

}  // namespace camshaft::ops
