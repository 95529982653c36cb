#include "reference/contract/gemm.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"
#include "reference/contract/product_tiles.h"

namespace camshaft::ops {

namespace {

// One block of C and the packed blocks of A and B that go into it: about a core's second-level cache in all.
constexpr int64_t block_rows = 320, block_columns = 324, block_depth = 160;
// Rows that are read before they are packed: one of B by one, each wrote the same part of 27 panels that lie a multiple
// of 4096 bytes apart, and 316 x 316 x 316 took 2.6 ms instead of 2.2.
constexpr int64_t panel_rows_at_once = 8;

}  // namespace

// How a problem is cut.
template <class T>
struct GemmBlocks {
  int64_t rows, columns, depth;  // of a block
  int64_t height;                // rows of a tile
  int64_t down, across, total;   // blocks

  GemmBlocks(const GemmProblem<T>& problem, const PackedTile<T>& kernel, int threads)
      : rows(even_part(problem.m, block_rows, kernel.rows)),
        columns(even_part(problem.n, block_columns, kernel.columns)),
        depth(problem.k > 0 ? divide_up(problem.k, divide_up(problem.k, block_depth)) : 1),
        height(kernel.rows) {
    // Smaller blocks where there would be too few for the threads.
    while (threads > 1 && problem.batches * divide_up(problem.m, rows) * divide_up(problem.n, columns) < 3 * threads) {
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
    down = divide_up(problem.m, rows), across = divide_up(problem.n, columns);
    total = problem.batches * down * across;
  }

  // Of as few parts as possible, none much smaller than the others: each block of A is packed for every block of B.
  static int64_t even_part(int64_t size, int64_t most, int64_t unit) {
    return round_up(divide_up(size, divide_up(size, most)), unit);
  }

  // The room of a worker, each part of it at whole cache lines: half of all vectors would lie across two.
  static size_t part(int64_t elements) { return static_cast<size_t>(round_up(elements * int64_t{sizeof(T)}, 64)); }
  size_t a() const { return part(rows * depth); }
  size_t b() const { return part(columns * depth); }
  size_t c() const { return part(rows * columns); }
  size_t read() const { return part(std::max(panel_rows_at_once * columns, height * depth)); }
  size_t worker() const { return a() + b() + c() + read(); }
};

namespace {

template <class T>
class Worker {
 public:
  Worker(const GemmProblem<T>& problem, const PackedTile<T>& kernel, const GemmBlocks<T>& blocks, std::byte* room)
      : problem_(problem),
        kernel_(kernel),
        blocks_(blocks),
        a_(reinterpret_cast<T*>(room)),
        b_(reinterpret_cast<T*>(room + blocks.a())),
        c_(reinterpret_cast<T*>(room + blocks.a() + blocks.b())),
        read_(reinterpret_cast<T*>(room + blocks.a() + blocks.b() + blocks.c())) {}

  void block(int64_t batch, int64_t row, int64_t column) {
    const int64_t rows = std::min(blocks_.rows, problem_.m - row),
                  columns = std::min(blocks_.columns, problem_.n - column);
    for (int64_t depth = 0; depth < std::max<int64_t>(problem_.k, 1); depth += blocks_.depth) {
      cancellation_point();
      const int64_t count = std::min(blocks_.depth, problem_.k - depth);
      pack_a(batch, row, rows, depth, count);
      pack_b(batch, column, columns, depth, count);
      for (int64_t j = 0; j < columns; j += kernel_.columns) {
        const int64_t wide = std::min<int64_t>(kernel_.columns, columns - j);
        const typename PackedTile<T>::Run run = kernel_.run[(wide - 1) / kernel_.lanes];
        for (int64_t i = 0; i < rows; i += kernel_.rows)
          run(count, a_ + i * count, b_ + j * count, c_ + i * blocks_.columns + j, blocks_.columns, depth == 0);
      }
    }
    for (int64_t i = 0; i < rows; ++i) problem_.store(batch, row + i, column, columns, c_ + i * blocks_.columns);
  }

 private:
  // Panels of kernel_.rows rows, each [depth][rows]; rows beyond the matrix are zero.
  void pack_a(int64_t batch, int64_t row, int64_t rows, int64_t depth, int64_t count) {
    const int64_t height = kernel_.rows;
    for (int64_t i = 0; i < rows; i += height) {
      const int64_t live = std::min(height, rows - i);
      for (int64_t r = 0; r < live; ++r) problem_.load_a(batch, row + i + r, depth, count, read_ + r * count);
      std::fill_n(read_ + live * count, (height - live) * count, T{});
      height == 4 ? beside_each_other<4>(count, a_ + i * count) : beside_each_other<8>(count, a_ + i * count);
    }
  }

  template <int height>
  void beside_each_other(int64_t count, T* to) const {
    for (int64_t p = 0; p < count; ++p)
      for (int r = 0; r < height; ++r) to[p * height + r] = read_[r * count + p];
  }

  // Panels of kernel_.columns columns, each [depth][columns]; the last of as few vectors as it takes, and what it has
  // more than the matrix is zero.
  void pack_b(int64_t batch, int64_t column, int64_t columns, int64_t depth, int64_t count) {
    const int64_t width = kernel_.columns, padded = round_up(columns, kernel_.lanes);
    for (int64_t p = 0; p < count; p += panel_rows_at_once) {
      const int64_t rows = std::min(panel_rows_at_once, count - p);
      for (int64_t r = 0; r < rows; ++r) {
        problem_.load_b(batch, depth + p + r, column, columns, read_ + r * padded);
        std::fill(read_ + r * padded + columns, read_ + (r + 1) * padded, T{});
      }
      for (int64_t j = 0; j < padded; j += width) {
        const int64_t stored = std::min(width, padded - j);
        for (int64_t r = 0; r < rows; ++r) copy_part(read_ + r * padded + j, stored, b_ + j * count + (p + r) * stored);
      }
    }
  }

  // Of a panel's row, which is a few times 16 bytes: a call for each takes longer than the copy.
  static void copy_part(const T* from, int64_t count, T* to) {
    constexpr int64_t step = 16 / sizeof(T);
    for (int64_t i = 0; i < count; i += step) std::memcpy(to + i, from + i, 16);
  }

  const GemmProblem<T>& problem_;
  const PackedTile<T>& kernel_;
  const GemmBlocks<T>& blocks_;
  T *const a_, *const b_, *const c_, *const read_;
};

}  // namespace

template <class T>
void solve(const GemmProblem<T>& problem, ThreadPool& pool, size_t kernel_index) {
  if (problem.m <= 0 || problem.n <= 0 || problem.batches <= 0) return;
  const PackedTile<T>& kernel = packed_tiles<T>(problem.exact_products).at(kernel_index);
  const GemmBlocks<T> blocks(problem, kernel, pool.size());
  const int workers = static_cast<int>(std::min<int64_t>(pool.size(), blocks.total));
  AlignedBuffer room(static_cast<size_t>(workers) * blocks.worker(), "the blocks of a matrix product");
  std::atomic<int64_t> next{0};
  pool.run(workers, [&](int thread) {
    Worker<T> worker(problem, kernel, blocks, room.data() + static_cast<size_t>(thread) * blocks.worker());
    for (int64_t task = next.fetch_add(1, std::memory_order_relaxed); task < blocks.total;
         task = next.fetch_add(1, std::memory_order_relaxed)) {
      const int64_t row = task % blocks.down, column = task / blocks.down % blocks.across;
      worker.block(task / (blocks.down * blocks.across), row * blocks.rows, column * blocks.columns);
    }
  });
}

template void solve(const GemmProblem<double>&, ThreadPool&, size_t);
template void solve(const GemmProblem<uint64_t>&, ThreadPool&, size_t);

size_t gemm_kernel_count() {
  return packed_tiles<double>(false).size();
}

}  // namespace camshaft::ops
