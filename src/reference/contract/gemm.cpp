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
  int64_t panel;                 // columns of a panel
  int64_t down, across, total;   // blocks

  GemmBlocks(const GemmProblem<T>& problem, const PackedTile<T>& kernel, int threads)
      : rows(even_part(problem.m, block_rows, kernel.rows)),
        columns(even_part(problem.n, block_columns, kernel.columns)),
        depth(problem.k > 0 ? divide_up(problem.k, divide_up(problem.k, block_depth)) : 1),
        panel(kernel.columns) {
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
  size_t read() const { return part(std::max(panel_rows_at_once * std::max(columns, depth), panel * depth)); }
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
    const typename GemmProblem<T>::Matrix in_place = problem_.c_in_memory(batch);
    T* const c = in_place.data ? in_place.data + row * in_place.row_stride + column : c_;
    const int64_t c_stride = in_place.data ? in_place.row_stride : blocks_.columns;
    for (int64_t depth = 0; depth < std::max<int64_t>(problem_.k, 1); depth += blocks_.depth) {
      cancellation_point();
      const int64_t count = std::min(blocks_.depth, problem_.k - depth);
      pack_a(batch, row, rows, depth, count);
      pack_b(batch, column, columns, depth, count);
      for (int64_t j = 0; j < columns; j += kernel_.columns) {
        const int64_t wide = std::min<int64_t>(kernel_.columns, columns - j);
        const typename PackedTile<T>::Run run = kernel_.run[(wide - 1) / kernel_.lanes];
        const bool is_whole = wide % kernel_.lanes == 0;
        for (int64_t i = 0; i < rows; i += kernel_.rows) {
          const int64_t high = std::min<int64_t>(kernel_.rows, rows - i);
          T* const to = c + i * c_stride + j;
          if (!in_place.data || (is_whole && high == kernel_.rows))
            run(count, a_ + i * count, b_ + j * count, to, c_stride, depth == 0);
          else
            edge(run, count, a_ + i * count, b_ + j * count, high, wide, to, c_stride, depth == 0);
        }
      }
    }
    if (in_place.data) return;
    for (int64_t i = 0; i < rows; ++i) problem_.store(batch, row + i, column, columns, c_ + i * c_stride);
  }

 private:
  // A tile that reaches beyond the matrix.
  void edge(typename PackedTile<T>::Run run, int64_t count, const T* a, const T* b, int64_t rows, int64_t columns, T* c,
            int64_t c_stride, bool begins) const {
    const int64_t stride = kernel_.columns;
    T* const tile = c_;
    for (int64_t r = 0; r < rows && !begins; ++r) std::copy_n(c + r * c_stride, columns, tile + r * stride);
    run(count, a, b, tile, stride, begins);
    for (int64_t r = 0; r < rows; ++r) std::copy_n(tile + r * stride, columns, c + r * c_stride);
  }

  // Panels of kernel_.rows rows, each [depth][rows]; rows beyond the matrix are zero.
  void pack_a(int64_t batch, int64_t row, int64_t rows, int64_t depth, int64_t count) {
    const int64_t height = kernel_.rows;
    const typename GemmProblem<T>::Matrix in_place = problem_.a_in_memory(batch);
    for (int64_t i = 0; i < rows; i += height) {
      const int64_t live = std::min(height, rows - i);
      T* const to = a_ + i * count;
      if (in_place.data && live == height) {
        const T* const from = in_place.data + (row + i) * in_place.row_stride + depth * in_place.column_stride;
        if (in_place.row_stride == 1) {
          for (int64_t p = 0; p < count; ++p) copy_part(from + p * in_place.column_stride, height, to + p * height);
        } else {
          beside_each_other(from, in_place.row_stride, in_place.column_stride, count, to);
        }
        continue;
      }
      problem_.load_a_rows(batch, row + i, live, depth, count, read_, count);
      std::fill_n(read_ + live * count, (height - live) * count, T{});
      beside_each_other(read_, count, 1, count, to);
    }
  }

  void beside_each_other(const T* from, int64_t row_stride, int64_t column_stride, int64_t count, T* to) const {
    kernel_.rows == 4 ? beside_each_other<4>(from, row_stride, column_stride, count, to)
                      : beside_each_other<8>(from, row_stride, column_stride, count, to);
  }
  template <int height>
  static void beside_each_other(const T* from, int64_t row_stride, int64_t column_stride, int64_t count, T* to) {
    int64_t p = column_stride == 1 ? turn_squares(from, height, row_stride, count, to, height) : 0;
    for (; p < count; ++p)
      for (int r = 0; r < height; ++r) to[p * height + r] = from[r * row_stride + p * column_stride];
  }

  // Panels of kernel_.columns columns, each [depth][columns]; the last of as few vectors as it takes, and what it has
  // more than the matrix is zero.
  void pack_b(int64_t batch, int64_t column, int64_t columns, int64_t depth, int64_t count) {
    const int64_t width = kernel_.columns, padded = round_up(columns, kernel_.lanes);
    const auto each_panel = [&](auto&& visit) {  // visit(first column, stored columns, columns of the matrix)
      for (int64_t j = 0; j < padded; j += width) visit(j, std::min(width, padded - j), std::min(width, columns - j));
    };
    const typename GemmProblem<T>::Matrix in_place = problem_.b_in_memory(batch);
    if (problem_.reads_b_by_columns()) {
      each_panel([&](int64_t j, int64_t stored, int64_t live) {
        const T* from = read_;
        int64_t step = count;
        if (in_place.data && live == stored && in_place.row_stride == 1) {
          from = in_place.data + depth + (column + j) * in_place.column_stride;
          step = in_place.column_stride;
        } else {
          problem_.load_b_columns(batch, column + j, live, depth, count, read_, count);
          std::fill_n(read_ + live * count, (stored - live) * count, T{});
        }
        T* const to = b_ + j * count;
        const int64_t squares = turn_squares(from, stored, step, count, to, stored);
        // Some rows at a time: those of a panel are written whole while they are in L1.
        constexpr int64_t rows = 64 / sizeof(T);
        for (int64_t p = squares; p < count; p += rows)
          for (int64_t c = 0; c < stored; ++c)
            for (int64_t q = p; q < std::min(count, p + rows); ++q) to[q * stored + c] = from[c * step + q];
      });
      return;
    }
    if (in_place.data) {
      for (int64_t p = 0; p < count; p += panel_rows_at_once) {
        const int64_t past = std::min(count, p + panel_rows_at_once);
        each_panel([&](int64_t j, int64_t stored, int64_t live) {
          const T* from = in_place.data + (depth + p) * in_place.row_stride + column + j;
          T* to = b_ + j * count + p * stored;
          for (int64_t q = p; q < past; ++q, from += in_place.row_stride, to += stored) {
            if (live == stored) {
              copy_part(from, stored, to);
            } else {
              std::copy_n(from, live, to);
              std::fill_n(to + live, stored - live, T{});
            }
          }
        });
      }
      return;
    }
    for (int64_t p = 0; p < count; p += panel_rows_at_once) {
      const int64_t rows = std::min(panel_rows_at_once, count - p);
      problem_.load_b_rows(batch, depth + p, rows, column, columns, read_, padded);
      for (int64_t r = 0; r < rows; ++r) std::fill(read_ + r * padded + columns, read_ + (r + 1) * padded, T{});
      each_panel([&](int64_t j, int64_t stored, int64_t) {
        for (int64_t r = 0; r < rows; ++r) copy_part(read_ + r * padded + j, stored, b_ + j * count + (p + r) * stored);
      });
    }
  }

  // to[p * to_step + i] = from[i * step + p] by squares of two, for an even number of lines of elements of 8 bytes: how
  // many of each line were done.
  static int64_t turn_squares(const T* from, int64_t lines, int64_t step, int64_t count, T* to, int64_t to_step) {
    int64_t p = 0;
    if constexpr (sizeof(T) == 8) {
      typedef T Pair __attribute__((vector_size(16)));
      const auto load = [](const T* at) {
        Pair pair;
        std::memcpy(&pair, at, sizeof(pair));
        return pair;
      };
      for (; lines % 2 == 0 && p + 2 <= count; p += 2)
        for (int64_t i = 0; i < lines; i += 2) {
          const Pair a = load(from + i * step + p), b = load(from + (i + 1) * step + p);
          const Pair first = __builtin_shufflevector(a, b, 0, 2), second = __builtin_shufflevector(a, b, 1, 3);
          std::memcpy(to + p * to_step + i, &first, sizeof(first));
          std::memcpy(to + (p + 1) * to_step + i, &second, sizeof(second));
        }
    }
    return p;
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

template <class T>
bool is_empty(const GemmProblem<T>& problem) {
  return problem.m <= 0 || problem.n <= 0 || problem.batches <= 0;
}

}  // namespace

template <class T>
size_t gemm_workspace_bytes(const GemmProblem<T>& problem, int threads, size_t kernel_index) {
  if (is_empty(problem)) return 0;
  const PackedTile<T>& kernel = packed_tiles<T>(problem.exact_products).at(kernel_index);
  size_t most = 0;
  for (int t = 1; t <= threads; ++t) {
    const GemmBlocks<T> blocks(problem, kernel, t);
    most = std::max(most, static_cast<size_t>(std::min<int64_t>(t, blocks.total)) * blocks.worker());
  }
  return most;
}

template <class T>
void solve(const GemmProblem<T>& problem, ThreadPool& pool, size_t kernel_index, std::byte* workspace) {
  if (is_empty(problem)) return;
  const PackedTile<T>& kernel = packed_tiles<T>(problem.exact_products).at(kernel_index);
  const GemmBlocks<T> blocks(problem, kernel, pool.size());
  const int workers = static_cast<int>(std::min<int64_t>(pool.size(), blocks.total));
  AlignedBuffer own;
  if (!workspace) {
    own = AlignedBuffer(static_cast<size_t>(workers) * blocks.worker(), "the blocks of a matrix product");
    workspace = own.data();
  }
  std::atomic<int64_t> next{0};
  pool.run(workers, [&](int thread) {
    Worker<T> worker(problem, kernel, blocks, workspace + static_cast<size_t>(thread) * blocks.worker());
    for (int64_t task = next.fetch_add(1, std::memory_order_relaxed); task < blocks.total;
         task = next.fetch_add(1, std::memory_order_relaxed)) {
      const int64_t row = task % blocks.down, column = task / blocks.down % blocks.across;
      worker.block(task / (blocks.down * blocks.across), row * blocks.rows, column * blocks.columns);
    }
  });
}

#define CAMSHAFT_TYPED(T)                                                      \
  template void solve(const GemmProblem<T>&, ThreadPool&, size_t, std::byte*); \
  template size_t gemm_workspace_bytes(const GemmProblem<T>&, int, size_t);
CAMSHAFT_TYPED(double)
CAMSHAFT_TYPED(uint32_t)
CAMSHAFT_TYPED(uint64_t)
#undef CAMSHAFT_TYPED

size_t gemm_kernel_count() {
  return packed_tiles<double>(false).size();
}

}  // namespace camshaft::ops
