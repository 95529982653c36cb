// The reference evaluation of matmul.
#include "ir/ops/contract.h"

#include "reference/contract/gemm.h"
#include "reference/contract/plain_product.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// The matrices of one operand.
struct Matrices {
  const Tensor& tensor;
  const ProductStack::Operand& lies;

  template <class T>
  void load(int64_t batch, int64_t row, int64_t first, int64_t count, T* out) const {
    load_elements(tensor.dtype(), tensor.data(),
                  lies.offsets[static_cast<size_t>(batch)] + row * lies.row_stride + first * lies.column_stride,
                  lies.column_stride, count, out);
  }
};

template <class T>
class MatMulProblem final : public GemmProblem<T> {
 public:
  MatMulProblem(const ProductStack& stack, const Tensor& a, const Tensor& b, Tensor& out)
      : a_{a, stack.a}, b_{b, stack.b}, dtype_(out.dtype()), out_(out.mutable_data()) {
    this->batches = std::ssize(stack.a.offsets);
    this->m = stack.m;
    this->n = stack.n;
    this->k = stack.k;
    this->exact_products = true;  // f64 has a product of its own
  }
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

}  // namespace

std::vector<Tensor> MatMul::evaluate(const EvalContext& context) const {
  const Tensor &a = context.input(0), &b = context.input(1);
  const ProductStack stack = product_stack(*this, a.dims(), b.dims());
  const DType dtype = b.dtype();  // A may be rounded (ops::takes_rounded())
  Tensor out(dtype, stack.dims);
  if (out.size() == 0) return {std::move(out)};
  if (has_plain_product(dtype)) {
    plain_product(stack, dtype, a.data(), b.data(), out.mutable_data(), context.pool);
  } else if (is_floating(dtype)) {
    solve(MatMulProblem<double>(stack, a, b, out), context.pool);
  } else {
    solve(MatMulProblem<uint64_t>(stack, a, b, out), context.pool);
  }
  return {std::move(out)};
}

}  // namespace camshaft::ops
