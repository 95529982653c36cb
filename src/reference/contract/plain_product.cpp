#include "reference/contract/plain_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/divide_up.h"
#include "base/error.h"
#include "base/pieces.h"
#include "base/work_scope.h"
#include "ir/ops/broadcast.h"
#include "reference/contract/gemm.h"
#include "reference/contract/product_tiles.h"

namespace camshaft::ops {

namespace {

// The first element of a matrix.
template <class T>
struct PlainOperand {
  const T* data;
  const ProductStack::Operand& lies;

  const T* at(int64_t batch, int64_t row, int64_t column) const {
    return data + lies.offsets[static_cast<size_t>(batch)] + row * lies.row_stride + column * lies.column_stride;
  }
  // Which only is read.
  typename GemmProblem<T>::Matrix matrix(int64_t batch) const {
    return {const_cast<T*>(at(batch, 0, 0)), lies.row_stride, lies.column_stride};
  }
  void load(int64_t batch, int64_t row, int64_t rows, int64_t first, int64_t count, T* out, int64_t stride) const {
    const T* from = at(batch, row, first);
    if (lies.column_stride == 1) {
      for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * lies.row_stride, count, out + r * stride);
      return;
    }
    // The rows' elements of a column lie together.
    for (int64_t i = 0; i < count; ++i, from += lies.column_stride)
      for (int64_t r = 0; r < rows; ++r) out[r * stride + i] = from[r * lies.row_stride];
  }
};

template <class T>
class PlainProblem final : public GemmProblem<T> {
 public:
  PlainProblem(const ProductStack& stack, const void* a, const void* b, void* out)
      : a_{static_cast<const T*>(a), stack.a}, b_{static_cast<const T*>(b), stack.b}, out_(static_cast<T*>(out)) {
    this->batches = std::ssize(stack.a.offsets);
    this->m = stack.m;
    this->n = stack.n;
    this->k = stack.k;
  }
  void load_a(int64_t batch, int64_t row, int64_t first, int64_t count, T* to) const override {
    a_.load(batch, row, 1, first, count, to, count);
  }
  void load_b(int64_t batch, int64_t row, int64_t first, int64_t count, T* to) const override {
    b_.load(batch, row, 1, first, count, to, count);
  }
  void load_a_rows(int64_t batch, int64_t row, int64_t rows, int64_t first, int64_t count, T* to,
                   int64_t stride) const override {
    a_.load(batch, row, rows, first, count, to, stride);
  }
  bool reads_b_by_columns() const override { return b_.lies.column_stride != 1; }
  void load_b_columns(int64_t batch, int64_t column, int64_t columns, int64_t first, int64_t count, T* to,
                      int64_t stride) const override {
    for (int64_t c = 0; c < columns; ++c) std::copy_n(b_.at(batch, first, column + c), count, to + c * stride);
  }
  void store(int64_t batch, int64_t row, int64_t first, int64_t count, T* in) const override {
    std::copy_n(in, count, out_ + (batch * this->m + row) * this->n + first);
  }
  using Matrix = typename GemmProblem<T>::Matrix;
  Matrix a_in_memory(int64_t batch) const override { return a_.matrix(batch); }
  Matrix b_in_memory(int64_t batch) const override { return b_.matrix(batch); }
  Matrix c_in_memory(int64_t batch) const override { return {out_ + batch * this->m * this->n, this->n, 1}; }

 private:
  const PlainOperand<T> a_, b_;
  T* const out_;
};

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

// A product whose B is read in place: few rows take as long as packing it would, and small ones as long as solve()
// takes to begin. One row of 1000 by 1000x100 took three times as long, 400 products of 16x16 twice.
bool is_small(const ProductStack& stack, int threads) {
  if (stack.b.column_stride != 1) return false;
  if (stack.n <= 64 && stack.k <= 64 && stack.m <= 64) return true;
  // Of any number of rows where B stays in L1 beside them; they are not shared out.
  if (threads == 1 && stack.n >= 2 && stack.n * stack.k <= (stack.n <= 8 ? 4096 : 1024)) return true;
  return stack.m <= 8 && (threads == 1 || stack.n * stack.k <= 1 << 18);  // columns are not shared out
}

template <class T>
void multiply_small(const ProductStack& stack, const T* a, const T* b, T* out, ThreadPool& pool) {
  const int64_t m = stack.m, n = stack.n, k = stack.k, work = std::max<int64_t>(1, m * n * k);
  // Whole tiles of rows, some milliseconds of them.
  const int64_t rows = round_up(std::max<int64_t>(1, (int64_t{1} << 22) / std::max<int64_t>(1, n * k)), 64);
  for_pieces(pool, std::ssize(stack.a.offsets), (32 * 1024 + work - 1) / work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      for (int64_t row = 0; row < m; row += rows) {
        cancellation_point();
        unpacked_product<T>(
            {a + stack.a.offsets[at] + row * stack.a.row_stride, stack.a.row_stride, stack.a.column_stride,
             b + stack.b.offsets[at], stack.b.row_stride, n, k, out + (i * m + row) * n},
            std::min(rows, m - row));
      }
    }
  });
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
    if (is_small(stack, pool.size()))
      return multiply_small(stack, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out), pool);
    solve(PlainProblem<T>(stack, a, b, out), pool, 0, workspace);
  });
}

size_t plain_product_bytes(const ProductStack& stack, DType dtype, int threads) {
  if (element_count(stack.dims) == 0) return 0;
  size_t bytes = 0;
  with_plain_type(dtype, [&](auto element) {
    using T = decltype(element);
    // What is small for one thread need not be for several; none is the other way round.
    if (!is_small(stack, threads))
      bytes = gemm_workspace_bytes(PlainProblem<T>(stack, nullptr, nullptr, nullptr), threads);
  });
  return bytes;
}

}  // namespace camshaft::ops
