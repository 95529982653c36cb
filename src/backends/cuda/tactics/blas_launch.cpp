#include "backends/cuda/tactics/blas_launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cuda {

namespace {

using Activation = KnownActivation;

int64_t blas_count(int64_t value, const char* what) {
  constexpr int64_t most = int64_t{1} << 31;
  if (value >= most)
    throw Error(ErrorCode::unsupported, fmt::format("{} of {} is more than cuBLASLt counts", what, value));
  return value;
}

void set_matrices(BlasProblem& p, const ProductView& view, const KernelShapes& shapes) {
  const OperandShape &a = shapes.inputs[static_cast<size_t>(view.a)], &b = shapes.inputs[static_cast<size_t>(view.b)],
                     &c = shapes.outputs[0];
  const bool ta = view.matmul->transpose_a, tb = view.matmul->transpose_b;
  const auto rows = [](const OperandShape& s) { return s.dims[s.dims.size() - 2]; };
  const auto lead = [](const OperandShape& s) { return Dims(s.dims.begin(), s.dims.end() - 2); };
  p.k = ta ? rows(a) : a.dims.back();
  require_equal(p.k, tb ? b.dims.back() : rows(b), "the size that matmul sums over");
  require_equal(rows(c), ta ? a.dims.back() : rows(a), "the number of rows of a matmul");
  require_equal(p.n, tb ? rows(b) : b.dims.back(), "the number of columns of a matmul");
  require_broadcast(lead(a), lead(c));
  require_broadcast(lead(b), lead(c));
  const int64_t matrices = element_count(lead(c)), of_a = element_count(lead(a)), of_b = element_count(lead(b));
  p.a.is_transposed = ta;
  p.b.is_transposed = tb;
  p.b.pitch = b.pitch();
  // One matrix of all rows where they follow each other and B is the same for all.
  if (!ta && of_b == 1 && of_a == matrices) return;
  p.batch = blas_count(matrices, "a number of matrices");
  p.m = rows(c);
  p.a.batch_stride = of_a == 1 ? 0 : rows(a) * a.pitch();
  p.b.batch_stride = of_b == 1 ? 0 : rows(b) * b.pitch();
}

void set_pixels(BlasProblem& p, const ProductView& view, const KernelShapes& shapes) {
  p.k = view.window[1];
  require_equal(shapes.inputs[static_cast<size_t>(view.a)].dims.back(), p.k,
                "the number of input channels of a convolution");
  if (const auto& inputs = view.contract.anchor_inputs; inputs.size() > 2 && inputs[2] >= 0)
    require_equal(shapes.inputs[static_cast<size_t>(inputs[2])].dims[0], p.n, "the number of biases of a convolution");
}

}  // namespace

BlasProblem blas_problem(const LibraryView& view, const KernelShapes& shapes) {
  const ProductView& product = view.product;
  const OperandShape& c = shapes.outputs[0];
  BlasProblem p;
  p.dtype = product.form.dtype;
  p.result = product.epilogue.result;
  p.n = blas_count(c.dims.back(), "a number of columns");
  p.m = element_count(Dims(c.dims.begin(), c.dims.end() - 1));
  p.a.pitch = shapes.inputs[static_cast<size_t>(product.a)].pitch();
  if (product.conv) {
    set_pixels(p, product, shapes);
  } else {
    set_matrices(p, product, shapes);
  }
  blas_count(p.m, "a number of rows");
  if (product.rows) p.b = {.pitch = product.rows->pitch, .is_transposed = true};
  p.c = {.pitch = c.pitch(), .batch_stride = p.m * c.pitch()};
  p.alpha = static_cast<float>(view.linear.alpha);
  if (const int32_t residual = view.input_of(view.linear.residual); residual >= 0) {
    const OperandShape& shape = shapes.inputs[static_cast<size_t>(residual)];
    require_broadcast(shape.dims, c.dims);
    p.beta = static_cast<float>(view.linear.beta);
    p.residual = {.pitch = shape.pitch(), .batch_stride = p.m * shape.pitch()};
  }
  p.has_bias = view.linear.bias >= 0;
  if (view.linear.activation == Activation::relu) p.activation = api::epilogue_relu;
  if (view.linear.activation == Activation::gelu_by_tanh) p.activation = api::epilogue_gelu;
  return p;
}

BlasLaunch::BlasLaunch(const LibraryOperands& operands, const KernelShapes& shapes, LibraryChoice choice,
                       const DeviceBuffer* column_scales)
    : operands_(operands) {
  BlasProblem problem = blas_problem(operands.view(), shapes);
  problem.tf32 = choice.tf32;
  if (problem.m == 0 || problem.n == 0 || problem.batch == 0) return;
  if (column_scales) {
    const std::vector<float> ones(static_cast<size_t>(problem.m), 1.0F);
    row_scales_ = upload(*operands.device(), std::as_bytes(std::span(ones)), "a layer's scales");
    problem.a_scales = reinterpret_cast<const float*>(row_scales_.data());
    problem.b_scales = reinterpret_cast<const float*>(column_scales->data());
  }
  aligned_.emplace(operands.device(), problem, 16, choice.rank);
  // Slices and what the caller binds may begin anywhere, and then it is too late to look for an algorithm. Of 8-bit
  // floats the library takes what is aligned alone.
  if (problem.dtype == DType::f8e4m3) {
    own_ = operands.own().prepare(shapes);
  } else {
    any_.emplace(operands.device(), problem, narrow(bit_width(problem.dtype)) / 8, choice.rank);
  }
}

size_t BlasLaunch::workspace_bytes() const {
  if (!aligned_) return 0;
  return std::max(aligned_->workspace_bytes(), own_ ? own_->workspace_bytes() : any_->workspace_bytes());
}

void BlasLaunch::run(const LaunchArguments& arguments) {
  if (!aligned_) return;
  const LibraryAddresses at = operands_.bind(arguments);
  if (own_ && !at.are_aligned()) return own_->run(arguments);
  (at.are_aligned() ? aligned_ : any_)->run(stream_of(arguments), at);
}

}  // namespace camshaft::cuda
