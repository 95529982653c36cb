#include "reference/contract/plain_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"
#include "ir/ops/broadcast.h"
#include "reference/contract/product_tiles.h"

namespace camshaft::ops {

namespace {

// Where each matrix of the broadcast stack starts in an operand.
Dims matrix_offsets(const Dims& operand, const Dims& batch, int64_t matrix_size) {
  const Dims own(operand.begin(), operand.end() - 2);
  Dims strides = broadcast_strides(own, batch);
  for (int64_t& s : strides) s *= matrix_size;
  Dims offsets;
  const LoopNest nest = collapse(batch, {strides});
  for_runs(nest, 0, nest.total(), [&](int64_t, const Dims& at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) offsets.push_back(at[0] + i * nest.strides[0].back());
  });
  return offsets;
}

// One product of a stack.
template <class T>
struct PlainProduct {
  const T* a;
  int64_t a_row, a_column;
  const T* b;
  int64_t b_row, b_column, m, n, k;
  T* c;  // rows of n
};

enum class PlainForm : uint8_t {
  dots_of_rows,     // a column of C, by rows of A
  transposed_row,   // a column of C, by columns of A, whose elements are neighbours
  dots_of_columns,  // few rows of C, by columns of B
  in_place,         // B is read where it lies
  packed,           // panels of B are copied, so that they stay in the cache from one tile of rows to the next
};

// Rows whose A is read again for every panel of B, and products whose B is packed at once, are what a core's
// second-level cache holds.
constexpr int64_t rows_of_a_strip = 320, most_columns = 324, most_depth = 160;
constexpr int64_t lines_at_once = 512;  // of a transposed A, whose pages a core still knows for the next columns
constexpr int64_t most_products = int64_t{1} << 26;  // that nobody waits for, to cancel them
constexpr int64_t tile_rows = 8;  // of the widest kernels: A's panels, where it is packed, and a block's rows

// Some tiles of rows read B as often from where it lies, which costs less than packing it while a core's caches hold
// it: 32 rows of f64 by 1000 x 1000 take 0.76 of the time, and by 2048 x 2048 more than twice as long.
PlainForm plain_form(const ProductStack& s) {
  constexpr int64_t few_dots = 4, few_rows = 32, few_elements = 2048, cached_elements = 1 << 20;
  if (s.n == 1 && s.a.row_stride == 1) return PlainForm::transposed_row;
  if (s.n == 1 && s.a.column_stride == 1) return PlainForm::dots_of_rows;
  if (s.m <= few_dots && s.b.row_stride == 1 && s.b.column_stride != 1) return PlainForm::dots_of_columns;
  const int64_t of_b = s.n * s.k;
  const bool reads_in_place = s.m <= tile_rows || (s.m <= few_rows && of_b <= cached_elements) || of_b <= few_elements;
  if (s.b.column_stride == 1 && reads_in_place) return PlainForm::in_place;
  return PlainForm::packed;
}

// How a stack is cut into blocks of C.
struct PlainBlocks {
  PlainForm form;
  bool packs_a;
  int64_t rows, columns, depth;
  int64_t down, across, total;  // blocks
  int64_t panel;                // columns that are packed together

  PlainBlocks(const ProductStack& s, int64_t panel_columns, int threads)
      : form(plain_form(s)),
        packs_a(form == PlainForm::packed && s.a.row_stride == 1 && s.a.column_stride != 1 && s.n > panel_columns),
        depth(s.k > 0 ? divide_up(s.k, divide_up(s.k, most_depth)) : 1),
        panel(std::min(panel_columns, round_up(s.n, 8))) {
    // Some milliseconds of rows; those of a block that is packed once may be far more than are multiplied at once.
    const int64_t work = std::max<int64_t>(1, s.n * s.k), most_rows = 3 * rows_of_a_strip;
    // Rows of a transposed A are neighbours, and multiplied as the columns of others are.
    const int64_t unit = form == PlainForm::transposed_row ? panel_columns : tile_rows;
    rows = form == PlainForm::packed ? even_part(s.m, most_rows, unit)
                                     : even_part(s.m, round_up((int64_t{1} << 22) / work + 1, unit), unit);
    columns = form == PlainForm::packed ? even_part(s.n, most_columns, panel) : round_up(s.n, panel);
    if (form == PlainForm::dots_of_columns)
      columns = even_part(s.n, round_up(most_products / std::max<int64_t>(1, rows * s.k) + 1, panel), panel);
    const auto batches = std::ssize(s.a.offsets);
    const auto blocks = [&] { return batches * divide_up(s.m, rows) * divide_up(s.n, columns); };
    // Smaller ones where there would be too few for the threads.
    while (threads > 1 && blocks() < 3 * threads) {
      if (rows > columns && rows > 4 * unit)
        rows = round_up(rows / 2, unit);
      else if (columns > 2 * panel && s.n > panel)
        columns = round_up(columns / 2, panel);
      else if (rows > 2 * unit)
        rows = round_up(rows / 2, unit);
      else
        break;
    }
    down = divide_up(s.m, rows), across = divide_up(s.n, columns);
    total = blocks();
  }

  // Of as few parts as possible, none much smaller than the others: B is packed once for each.
  static int64_t even_part(int64_t size, int64_t most, int64_t unit) {
    return round_up(divide_up(size, divide_up(size, most)), unit);
  }

  // Elements that a worker packs.
  int64_t packed_b() const { return form == PlainForm::packed ? columns * depth : 0; }
  int64_t packed_a() const { return packs_a ? std::min(rows, rows_of_a_strip) * depth : 0; }
  template <class T>
  size_t worker_bytes() const {
    return static_cast<size_t>(round_up((packed_a() + packed_b()) * int64_t{sizeof(T)}, 64));
  }
  template <class T>
  int workers(int threads, int64_t products) const {
    constexpr int64_t least_products = 32 * 1024;  // that are worth waking a thread
    return static_cast<int>(std::clamp<int64_t>(products / least_products, 1, std::min<int64_t>(threads, total)));
  }
};

// to[r * to_step + i] = from[r * step + i]: rows of some times 16 bytes, for which a call each takes longer than
// copying.
template <class T>
void copy_rows(const T* from, int64_t rows, int64_t step, int64_t count, T* to, int64_t to_step) {
  constexpr int64_t part = 16 / sizeof(T);
  for (int64_t r = 0; r < rows; ++r, from += step, to += to_step) {
    int64_t i = 0;
    for (; i + part <= count; i += part) std::memcpy(to + i, from + i, 16);
    for (; i < count; ++i) to[i] = from[i];
  }
}

// A block of C, by panels of B that are packed into `room`.
template <class T>
void packed_block(const PlainProduct<T>& x, const PlainBlocks& blocks, int64_t row, int64_t column, T* room) {
  const int64_t rows = std::min(blocks.rows, x.m - row), columns = std::min(blocks.columns, x.n - column);
  T *const b = room, *const a = room + blocks.packed_b();
  for (int64_t depth = 0; depth < std::max<int64_t>(x.k, 1); depth += blocks.depth) {
    const int64_t count = std::min(blocks.depth, x.k - depth);
    // Some rows at a time, whole vectors where they are turned: each panel has them in one or two cache lines.
    constexpr int64_t together = 64 / sizeof(T);
    for (int64_t p = 0; p < count; p += together)
      for (int64_t j = 0; j < columns; j += blocks.panel) {
        const int64_t wide = std::min(blocks.panel, columns - j), high = std::min(together, count - p);
        const T* from = x.b + (depth + p) * x.b_row + (column + j) * x.b_column;
        T* const to = b + j * count + p * blocks.panel;
        if (x.b_column == 1)
          copy_rows(from, high, x.b_row, wide, to, blocks.panel);
        else
          turn_rows<T>(from, wide, x.b_column, high, to, blocks.panel);
      }
    for (int64_t first = 0; first < rows; first += rows_of_a_strip) {
      cancellation_point();
      const int64_t some = std::min(rows_of_a_strip, rows - first);
      const T* const from = x.a + (row + first) * x.a_row + depth * x.a_column;
      for (int64_t i = 0; blocks.packs_a && i < some; i += tile_rows)
        copy_rows(from + i, count, x.a_column, std::min(tile_rows, some - i), a + i * count, tile_rows);
      for (int64_t j = 0; j < columns; j += blocks.panel) {
        T* const c = x.c + (row + first) * x.n + column + j;
        UnpackedOperands<T> tile{
            from,  x.a_row, x.a_column, b + j * count, blocks.panel, std::min(blocks.panel, columns - j),
            count, c,       x.n,        depth == 0};
        if (!blocks.packs_a) {
          unpacked_product<T>(tile, some);
          continue;
        }
        tile.a_row = 1, tile.a_column = tile_rows;
        for (int64_t i = 0; i < some; i += tile_rows) {
          tile.a = a + i * count, tile.c = c + i * x.n;
          unpacked_product<T>(tile, std::min(tile_rows, some - i));
        }
      }
    }
  }
}

// Some hundredths of a second at a time, and at most `depth` terms of each sum.
template <class T>
void unpacked_block(UnpackedOperands<T> operands, int64_t rows, int64_t depth) {
  const int64_t k = operands.k, a_column = operands.a_column, b_row = operands.b_row;
  depth = std::clamp<int64_t>(most_products / std::max<int64_t>(1, rows * operands.n), 1, std::max<int64_t>(1, depth));
  for (int64_t done = 0; done == 0 || done < k; done += depth) {
    if (done > 0) cancellation_point();
    operands.k = std::min(depth, k - done);
    operands.begins = done == 0;
    unpacked_product<T>(operands, rows);
    operands.a += operands.k * a_column, operands.b += operands.k * b_row;
  }
}

template <class T>
void plain_block(const PlainProduct<T>& x, const PlainBlocks& blocks, int64_t row, int64_t column, T* room) {
  const int64_t rows = std::min(blocks.rows, x.m - row), columns = std::min(blocks.columns, x.n - column);
  const T *const a = x.a + row * x.a_row, *const b = x.b + column * x.b_column;
  T* const c = x.c + row * x.n + column;
  switch (blocks.form) {
    case PlainForm::dots_of_rows:
      return dot_products<T>({a, x.a_row, x.k, b, x.b_row, c}, rows);
    case PlainForm::transposed_row:
      return unpacked_block<T>({b, 0, x.b_row, a, x.a_column, rows, x.k, c, rows}, 1, lines_at_once);
    case PlainForm::dots_of_columns:
      for (int64_t i = 0; i < rows; ++i)
        dot_products<T>({b, x.b_column, x.k, a + i * x.a_row, x.a_column, c + i * x.n}, columns);
      return;
    case PlainForm::in_place:
      return unpacked_block<T>({a, x.a_row, x.a_column, b, x.b_row, columns, x.k, c, x.n}, rows, x.k);
    case PlainForm::packed:
      return packed_block(x, blocks, row, column, room);
  }
}

// visit(T()) of the type that elements are computed in.
template <class Visit>
void with_plain_type(DType dtype, Visit&& visit) {
  if (dtype == DType::f64) return visit(double());
  if (bit_width(dtype) == 32) return visit(uint32_t());
  visit(uint64_t());
}

}  // namespace

ProductStack product_stack(const MatMul& op, const Dims& a, const Dims& b) {
  const auto rows_columns = [](const Dims& dims, bool transposed) {
    const int64_t rows = dims[dims.size() - 2], columns = dims.back();
    return transposed ? std::pair(columns, rows) : std::pair(rows, columns);
  };
  ProductStack stack;
  std::tie(stack.m, stack.k) = rows_columns(a, op.transpose_a);
  const auto [b_rows, n] = rows_columns(b, op.transpose_b);
  stack.n = n;
  if (stack.k != b_rows)
    throw Error(ErrorCode::invalid_argument, fmt::format("matmul of {} and {} sums over sizes that differ: {} and {}",
                                                         to_string(a), to_string(b), stack.k, b_rows));
  const auto batch_of = [](const Dims& dims) { return Dims(dims.begin(), dims.end() - 2); };
  const Dims a_batch = batch_of(a), b_batch = batch_of(b);
  Dims batch(std::max(a_batch.size(), b_batch.size()), 1);
  for (const Dims* own : {&a_batch, &b_batch})
    for (size_t i = 0; i < own->size(); ++i)
      if ((*own)[i] != 1) batch[batch.size() - own->size() + i] = (*own)[i];
  stack.dims = batch;
  stack.dims.push_back(stack.m);
  stack.dims.push_back(stack.n);
  for (const Dims* operand : {&a_batch, &b_batch}) broadcast_strides(*operand, batch);  // or throws
  stack.a.row_stride = op.transpose_a ? 1 : stack.k;
  stack.a.column_stride = op.transpose_a ? stack.m : 1;
  stack.b.row_stride = op.transpose_b ? 1 : stack.n;
  stack.b.column_stride = op.transpose_b ? stack.k : 1;
  if (element_count(stack.dims) == 0) return stack;  // before there are offsets: of any number of empty matrices
  stack.a.offsets = matrix_offsets(a, batch, stack.m * stack.k);
  stack.b.offsets = matrix_offsets(b, batch, stack.k * stack.n);
  if (element_count(b_batch) == 1 && !op.transpose_a && element_count(a_batch) == element_count(batch)) {
    stack.m *= element_count(batch);  // one tall matrix
    stack.a.offsets = stack.b.offsets = {0};
  }
  return stack;
}

bool has_plain_product(DType dtype) {
  return dtype == DType::f64 || (is_integer(dtype) && (bit_width(dtype) == 32 || bit_width(dtype) == 64));
}

void plain_product(const ProductStack& stack, DType dtype, const void* a, const void* b, void* out, ThreadPool& pool,
                   std::byte* workspace) {
  if (element_count(stack.dims) == 0) return;
  with_plain_type(dtype, [&](auto element) {
    using T = decltype(element);
    const PlainBlocks blocks(stack, unpacked_panel<T>(), pool.size());
    const int workers = blocks.workers<T>(pool.size(), element_count(stack.dims) * std::max<int64_t>(1, stack.k));
    AlignedBuffer own;
    if (const size_t bytes = static_cast<size_t>(workers) * blocks.worker_bytes<T>(); !workspace && bytes > 0) {
      own = AlignedBuffer(bytes, "the blocks of a matrix product");
      workspace = own.data();
    }
    PlainProduct<T> first{static_cast<const T*>(a),
                          stack.a.row_stride,
                          stack.a.column_stride,
                          static_cast<const T*>(b),
                          stack.b.row_stride,
                          stack.b.column_stride,
                          stack.m,
                          stack.n,
                          stack.k,
                          static_cast<T*>(out)};
    std::atomic<int64_t> next{0};
    const int64_t step = std::max<int64_t>(1, blocks.total / (8 * workers));
    pool.run(workers, [&](int thread) {
      T* const room = reinterpret_cast<T*>(workspace + static_cast<size_t>(thread) * blocks.worker_bytes<T>());
      PacedCancellation cancellation;
      for (;;) {
        const int64_t begin = next.fetch_add(step, std::memory_order_relaxed);
        if (begin >= blocks.total) return;
        for (int64_t task = begin; task < std::min(blocks.total, begin + step); ++task) {
          cancellation.did(blocks.rows * blocks.columns * std::max<int64_t>(1, stack.k));
          const int64_t row = task % blocks.down, column = task / blocks.down % blocks.across;
          const auto i = static_cast<size_t>(task / (blocks.down * blocks.across));
          PlainProduct<T> product = first;
          product.a += stack.a.offsets[i], product.b += stack.b.offsets[i];
          product.c += static_cast<int64_t>(i) * stack.m * stack.n;
          plain_block(product, blocks, row * blocks.rows, column * blocks.columns, room);
        }
      }
    });
  });
}

size_t plain_product_bytes(const ProductStack& stack, DType dtype, int threads) {
  if (element_count(stack.dims) == 0) return 0;
  size_t most = 0;
  with_plain_type(dtype, [&](auto element) {
    using T = decltype(element);
    for (int t = 1; t <= threads; ++t) {
      const PlainBlocks blocks(stack, unpacked_panel<T>(), t);
      const int workers = blocks.workers<T>(t, element_count(stack.dims) * std::max<int64_t>(1, stack.k));
      most = std::max(most, static_cast<size_t>(workers) * blocks.worker_bytes<T>());
    }
  });
  return most;
}

}  // namespace camshaft::ops
