// The reference evaluation of matmul.
#include "ir/ops/contract.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/pieces.h"
#include "ir/ops/broadcast.h"
#include "reference/contract/gemm.h"
#include "reference/contract/product_tiles.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// A stack of matrices of one operand: element (row, column) is at offsets[batch] + row·row_stride +
// column·column_stride.
struct Matrices {
  const Tensor& tensor;
  int64_t row_stride = 0, column_stride = 0;
  Dims offsets;

  template <class T>
  void load(int64_t batch, int64_t row, int64_t first, int64_t count, T* out) const {
    load_elements(tensor.dtype(), tensor.data(),
                  offsets[static_cast<size_t>(batch)] + row * row_stride + first * column_stride, column_stride, count,
                  out);
  }
};

template <class T>
class MatMulProblem final : public GemmProblem<T> {
 public:
  MatMulProblem(Matrices a, Matrices b, Tensor& out)
      : a_(std::move(a)), b_(std::move(b)), dtype_(out.dtype()), out_(out.mutable_data()) {}
  void load_a(int64_t batch, int64_t row, int64_t first, int64_t count, T* out) const override {
    a_.load(batch, row, first, count, out);
  }
  void load_b(int64_t batch, int64_t row, int64_t first, int64_t count, T* out) const override {
    b_.load(batch, row, first, count, out);
  }
  void store(int64_t batch, int64_t row, int64_t first, int64_t count, T* in) const override {
    store_elements(dtype_, out_, (batch * this->m + row) * this->n + first, 1, count, in);
  }

 private:
  const Matrices a_, b_;
  const DType dtype_;
  std::byte* const out_;
};

// Elements that are those it is computed in, or integers that wrap as they do.
template <class T>
class PlainProblem final : public GemmProblem<T> {
 public:
  PlainProblem(const Matrices& a, const Matrices& b, Tensor& out)
      : a_(a), b_(b), out_(reinterpret_cast<T*>(out.mutable_data())) {}
  void load_a(int64_t batch, int64_t row, int64_t first, int64_t count, T* to) const override {
    load(a_, batch, row, first, count, to);
  }
  void load_b(int64_t batch, int64_t row, int64_t first, int64_t count, T* to) const override {
    load(b_, batch, row, first, count, to);
  }
  void store(int64_t batch, int64_t row, int64_t first, int64_t count, T* in) const override {
    std::copy_n(in, count, out_ + (batch * this->m + row) * this->n + first);
  }

 private:
  static void load(const Matrices& of, int64_t batch, int64_t row, int64_t first, int64_t count, T* to) {
    const T* from = reinterpret_cast<const T*>(of.tensor.data()) + of.offsets[static_cast<size_t>(batch)] +
                    row * of.row_stride + first * of.column_stride;
    if (of.column_stride == 1) {
      std::copy_n(from, count, to);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = from[i * of.column_stride];
    }
  }

  const Matrices &a_, &b_;
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
bool is_small(int64_t m, int64_t n, int64_t k, int threads) {
  if (n <= 64 && k <= 64 && m <= 64) return true;
  return m <= 8 && (threads == 1 || n * k <= 1 << 18);  // columns are not shared out
}

template <class T>
void multiply_small(const Matrices& a, const Matrices& b, int64_t m, int64_t n, int64_t k, Tensor& out,
                    ThreadPool& pool) {
  const auto* left = reinterpret_cast<const T*>(a.tensor.data());
  const auto* right = reinterpret_cast<const T*>(b.tensor.data());
  auto* to = reinterpret_cast<T*>(out.mutable_data());
  const int64_t work = std::max<int64_t>(1, m * n * k);
  for_pieces(pool, std::ssize(a.offsets), (32 * 1024 + work - 1) / work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      unpacked_product<T>({left + a.offsets[at], a.row_stride, a.column_stride, right + b.offsets[at], b.row_stride, n,
                           k, to + i * m * n},
                          m);
    }
  });
}

// Whether the elements are those that it is computed in, or wrap as they do.
bool multiplies_small(const Matrices& a, const Matrices& b, int64_t m, int64_t n, int64_t k, Tensor& out,
                      ThreadPool& pool) {
  const DType dtype = out.dtype();
  if (b.column_stride != 1 || !is_small(m, n, k, pool.size())) return false;
  if (dtype == DType::f64) return multiply_small<double>(a, b, m, n, k, out, pool), true;
  if (!is_integer(dtype)) return false;
  if (bit_width(dtype) == 64) return multiply_small<uint64_t>(a, b, m, n, k, out, pool), true;
  if (bit_width(dtype) == 32) return multiply_small<uint32_t>(a, b, m, n, k, out, pool), true;
  return false;
}

}  // namespace

std::vector<Tensor> MatMul::evaluate(const EvalContext& context) const {
  const Tensor &a = context.input(0), &b = context.input(1);
  const auto rows_columns = [](const Tensor& t, bool transposed) {
    const int64_t rows = t.dims()[t.dims().size() - 2], columns = t.dims().back();
    return transposed ? std::pair(columns, rows) : std::pair(rows, columns);
  };
  auto [m, k] = rows_columns(a, transpose_a);
  const auto [b_rows, n] = rows_columns(b, transpose_b);
  if (k != b_rows)
    throw Error(ErrorCode::invalid_argument, fmt::format("matmul of {} and {} sums over sizes that differ: {} and {}",
                                                         to_string(a.dims()), to_string(b.dims()), k, b_rows));
  const auto batch_of = [](const Tensor& t) { return Dims(t.dims().begin(), t.dims().end() - 2); };
  const Dims a_batch = batch_of(a), b_batch = batch_of(b);
  Dims dims(std::max(a_batch.size(), b_batch.size()), 1);
  for (const Dims* batch : {&a_batch, &b_batch})
    for (size_t i = 0; i < batch->size(); ++i)
      if ((*batch)[i] != 1) dims[dims.size() - batch->size() + i] = (*batch)[i];
  Dims batch = dims;
  dims.push_back(m);
  dims.push_back(n);
  Tensor out(a.dtype(), dims);
  for (const Dims* operand : {&a_batch, &b_batch}) broadcast_strides(*operand, batch);  // or throws
  if (out.size() == 0) return {std::move(out)};  // before there are offsets: of any number of empty matrices
  Dims a_offsets = matrix_offsets(a.dims(), batch, m * k), b_offsets = matrix_offsets(b.dims(), batch, k * n);
  if (element_count(b_batch) == 1 && !transpose_a && element_count(a_batch) == element_count(batch)) {
    m *= element_count(batch);  // one tall matrix
    a_offsets = b_offsets = {0};
  }
  const Matrices left{a, transpose_a ? 1 : k, transpose_a ? m : 1, a_offsets};
  const Matrices right{b, transpose_b ? 1 : n, transpose_b ? k : 1, b_offsets};
  if (multiplies_small(left, right, m, n, k, out, context.pool)) return {std::move(out)};
  const auto run = [&, rows = m, depth = k, columns = n](auto problem) {
    problem.batches = static_cast<int64_t>(a_offsets.size());
    problem.m = rows;
    problem.n = columns;
    problem.k = depth;
    problem.exact_products = a.dtype() != DType::f64;
    solve(problem, context.pool);
  };
  const DType dtype = a.dtype();
  if (dtype == DType::f64) {
    run(PlainProblem<double>(left, right, out));
  } else if (is_floating(dtype)) {
    run(MatMulProblem<double>(left, right, out));
  } else if (bit_width(dtype) == 32) {
    run(PlainProblem<uint32_t>(left, right, out));
  } else if (bit_width(dtype) == 64) {
    run(PlainProblem<uint64_t>(left, right, out));
  } else {
    run(MatMulProblem<uint64_t>(left, right, out));
  }
  return {std::move(out)};
}

}  // namespace camshaft::ops
