// Fusions of products, convolutions, softmax and dropout with what stands around them, of the domain com.microsoft.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/activations.h"
#include "onnx/converters.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// An activation by its name, with parameters that default to those of the operator of that name.
class FusedActivation {
 public:
  FusedActivation(ConvertContext& c, std::string name, std::vector<double> parameters)
      : c_(c), name_(std::move(name)), parameters_(std::move(parameters)) {}

  ValueId apply(ValueId x) {
    dtype_ = c_.dtype(x);
    if (name_.empty() || name_ == "Identity") return x;
    if (name_ == "Relu") return op(F::max, x, 0);
    if (name_ == "Tanh") return c_.add(F::tanh, {x});
    if (name_ == "Sigmoid") return c_.add(F::sigmoid, {x});
    if (name_ == "Softplus") return softplus(c_, x);
    if (name_ == "Gelu") return gelu(c_, x);
    if (name_ == "LeakyRelu") return below_zero(x, op(F::mul, x, parameter(0, 0.01F)), x);
    if (name_ == "Affine") return op(F::add, op(F::mul, x, parameter(0, 1)), parameter(1, 0));
    if (name_ == "Clip")
      return op(F::min, op(F::max, x, parameter(0, std::numeric_limits<float>::lowest())),
                parameter(1, std::numeric_limits<float>::max()));
    if (name_ == "HardSigmoid") return hard_sigmoid(x, parameter(0, 0.2F), parameter(1, 0.5));
    if (name_ == "HardSwish") return c_.add(F::mul, {x, hard_sigmoid(x, 1.0 / 6, 0.5)});
    if (name_ == "Elu") return below_zero(x, op(F::mul, op(F::sub, c_.add(F::exp, {x}), 1), parameter(0, 1)), x);
    if (name_ == "ThresholdedRelu") {
      const ValueId above = c_.add(F::less, {number(parameter(0, 1)), x});
      return c_.add(F::select, {above, x, number(0)});
    }
    if (name_ == "Softsign") {
      const ValueId size = op(F::add, c_.add(F::abs, {x}), 1);
      return c_.add(F::div, {x, size});
    }
    c_.unsupported(fmt::format("the activation {}", quote(name_)));
  }

 private:
  ValueId number(double v) { return c_.scalar(dtype_, v); }
  ValueId op(F f, ValueId a, double b) { return c_.add(f, {a, number(b)}); }
  ValueId below_zero(ValueId x, ValueId below, ValueId above) {
    return c_.add(F::select, {op(F::less, x, 0), below, above});
  }
  ValueId hard_sigmoid(ValueId x, double alpha, double beta) {
    return op(F::min, op(F::max, op(F::add, op(F::mul, x, alpha), beta), 0), 1);
  }
  double parameter(size_t i, double otherwise) const { return i < parameters_.size() ? parameters_[i] : otherwise; }

  ConvertContext& c_;
  const std::string name_;
  const std::vector<double> parameters_;
  DType dtype_ = DType::f32;
};

// "activation" with "activation_alpha", "activation_beta" and "activation_gamma".
FusedActivation lettered_activation(ConvertContext& c) {
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (!c.has_attribute(name)) break;
    parameters.push_back(c.float_attribute(name));
  }
  return {c, c.string_attribute("activation", ""), std::move(parameters)};
}

// The first axis goes behind the batch axes, where the rows of a matrix are: [m, batch…, k] -> [batch…, m, k].
ValueId batches_first(ConvertContext& c, ValueId x) {
  const int64_t rank = c.rank(x);
  if (rank < 3) return x;
  std::vector<int64_t> permutation(static_cast<size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::rotate(permutation.begin(), permutation.begin() + 1, permutation.end() - 1);
  return c.add(ops::Transpose{std::move(permutation)}, {x});
}

// alpha · a·b as NumPy's matmul; transposing does nothing to vectors.
ValueId fused_product(ConvertContext& c) {
  ValueId a = c.input(0), b = c.input(1);
  if (c.rank(a) == 0 || c.rank(b) == 0) c.invalid("a scalar cannot be multiplied as a matrix");
  if (c.int_attribute("transBatchA", 0) != 0) a = batches_first(c, a);
  if (c.int_attribute("transBatchB", 0) != 0) b = batches_first(c, b);
  const bool row = c.rank(a) == 1, column = c.rank(b) == 1;
  const ops::MatMul op{!row && c.int_attribute("transA", 0) != 0, !column && c.int_attribute("transB", 0) != 0};
  if (row) a = c.reshape(a, {1, c.dim(a, 0)});
  if (column) b = c.reshape(b, {c.dim(b, 0), 1});
  ValueId y = c.add(op, {a, b});
  Shape shape = c.shape(y);
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  y = c.reshape(y, std::move(shape));
  const double alpha = c.float_attribute("alpha", 1);
  return alpha == 1 ? y : c.add(F::mul, {y, c.scalar(c.dtype(y), alpha)});
}

Values fused_matmul(ConvertContext& c) {
  return {fused_product(c)};
}
Values fused_matmul_activation(ConvertContext& c) {
  const ValueId product = fused_product(c);
  return {lettered_activation(c).apply(product)};
}
Values gemm_fast_gelu(ConvertContext& c) {
  ValueId y = fused_product(c);
  if (c.has(2)) y = c.add(F::add, {y, c.input(2)});
  return {gelu_tanh(c, y)};
}

// The operator of the standard that the fusion begins with.
ValueId standard(ConvertContext& c, std::string_view op_type) {
  return find_converter("", op_type, newest_opset)->convert(c).at(0);
}

Values fused_gemm(ConvertContext& c) {
  const ValueId y = standard(c, "Gemm");
  return {lettered_activation(c).apply(y)};
}

// Input 3 is added before the activation.
Values fused_conv(ConvertContext& c) {
  ValueId y = standard(c, "Conv");
  if (c.has(3)) y = c.add(F::add, {y, c.input(3)});
  const auto parameters = c.floats_attribute("activation_params").value_or(std::vector<double>());
  return {FusedActivation(c, c.string_attribute("activation", ""), parameters).apply(y)};
}

// All axes from `axis` on count as one.
Values bias_softmax(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x), axis = c.axis(c.int_attribute("axis", 1), rank);
  const ValueId sum = c.add(F::add, {x, c.input(1)});
  const Shape shape = c.shape(x);
  const ValueId flat = c.reshape(sum, {product(shape, 0, axis), product(shape, axis, rank)});
  return {c.reshape(c.add(ops::Softmax{1}, {flat}), shape)};
}

Values bias_add(ConvertContext& c) {
  return c.result(F::add, {c.add(F::add, {c.input(0), c.input(1)}), c.input(2)});
}

// Inference: nothing is dropped.
Values bias_dropout(ConvertContext& c) {
  if (c.has(4)) {
    const auto training = c.constant(c.input(4));
    if (!training || training->size() != 1 || training->dtype() != DType::boolean || training->to_ints()[0] != 0)
      c.unsupported("training mode");
  }
  ValueId y = c.add(F::add, {c.input(0), c.input(1)});
  if (c.has(2)) y = c.add(F::add, {y, c.input(2)});
  if (!c.uses_output(1)) return {y};
  return {y, c.add(ops::Expand{c.shape(y)}, {c.scalar(DType::boolean, 1)})};
}

constexpr Converter microsoft_fused_table[] = {
    {"BiasAdd", bias_add},
    {"BiasDropout", bias_dropout},
    {"BiasSoftmax", bias_softmax},
    {"FusedConv", fused_conv},
    {"FusedGemm", fused_gemm},
    {"FusedMatMul", fused_matmul},
    {"FusedMatMulActivation", fused_matmul_activation},
    {"GemmFastGelu", gemm_fast_gelu},
    {"TransposeMatMul", fused_matmul},
};

}  // namespace

std::span<const Converter> microsoft_fused_converters() {
  return microsoft_fused_table;
}

}  // namespace camshaft::onnx
