// Matrix multiplications and convolutions. Einsum is in einsum.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/spatial.h"
#include "onnx/converters.h"
#include "onnx/einsum.h"
#include "onnx/matmul.h"
#include "onnx/spatial.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

Values matmul(ConvertContext& c) {
  return {matmul(c, c.input(0), c.input(1))};
}

Values gemm(ConvertContext& c) {
  const ValueId a = c.input(0), b = c.input(1);
  const double alpha = c.float_attribute("alpha", 1), beta = c.float_attribute("beta", 1);
  const bool transpose_a = c.int_attribute("transA", 0) != 0, transpose_b = c.int_attribute("transB", 0) != 0;
  if (c.rank(a) != 2 || c.rank(b) != 2) c.invalid(fmt::format("A has {} axes and B {}, not 2", c.rank(a), c.rank(b)));
  const bool adds = c.has(2) && beta != 0;
  const ops::MatMul op{transpose_a, transpose_b};
  if (!adds && alpha == 1) return c.result(op, {a, b});
  const DType dtype = c.dtype(a);
  // Factors of integers may have a fraction, which counts before the result is cut off.
  const bool is_cut = !is_floating(dtype) && (std::trunc(alpha) != alpha || (adds && std::trunc(beta) != beta));
  const DType computed = is_cut ? DType::f64 : dtype;
  const auto times = [&](ValueId x, double factor) {
    x = c.cast(x, computed);
    return factor == 1 ? x : c.add(F::mul, {x, c.scalar(computed, factor)});
  };
  const ValueId product = c.add(op, {a, b});
  if (!adds && !is_cut) return c.result(F::mul, {product, c.scalar(dtype, alpha)});
  const ValueId scaled = times(product, alpha);
  if (!adds) return c.result(ops::Cast{dtype}, {scaled});
  const ValueId addend = times(c.input(2), beta);
  if (!is_cut) return c.result(F::add, {scaled, addend});
  return c.result(ops::Cast{dtype}, {c.add(F::add, {scaled, addend})});
}

// The spatial sizes of weights, which must be numbers.
std::vector<int64_t> kernel_of(ConvertContext& c, ValueId weights) {
  std::vector<int64_t> kernel;
  for (int64_t i = 2; i < c.rank(weights); ++i) kernel.push_back(c.static_size(c.dim(weights, i), "the kernel's size"));
  return kernel;
}

void check_ranks(ConvertContext& c, ValueId x, ValueId weights) {
  if (c.rank(x) != c.rank(weights))
    c.invalid(fmt::format("the input has {} axes, the weights {}", c.rank(x), c.rank(weights)));
  if (c.rank(x) > 5) c.unsupported(fmt::format("{} spatial axes; 1 to 3 are supported", c.rank(x) - 2));
}

Values conv(ConvertContext& c) {
  const ValueId x = c.input(0), weights = c.input(1);
  check_ranks(c, x, weights);
  const Window w = read_window(c, x, kernel_of(c, weights));
  Values inputs{x, weights};
  if (c.has(2)) inputs.push_back(c.input(2));
  return c.result(ops::Conv{w.strides, w.pads, w.dilations, c.int_attribute("group", 1)}, std::move(inputs));
}

// With steps of one pixel a transposed convolution is a convolution with the kernel turned round and its channels
// swapped, for which there are more and faster kernels (3 x 3 over 4 channels took 2.6 times as long). Where there is
// one pixel there are no steps: 16 groups of it took 9.5 us as transposed ones, and take 1.8. (With one group a kernel
// of several taps is as many products there, and would be mostly padding.) nullopt where the pads would be negative,
// and for weights that each run would have to turn: at 6 x 6 pixels of 32 channels that took 8 of 19 us.
std::optional<Values> as_convolution(ConvertContext& c, const ops::ConvTranspose& op, const Values& inputs) {
  const ValueId weights = inputs[1];
  if (!c.is_constant(weights)) return std::nullopt;
  const size_t count = op.strides.size();
  ops::Conv conv{std::vector<int64_t>(count, 1), Shape(2 * count, Dim(0)), op.dilations, op.groups};
  ops::Slice turned;
  Shape apart{op.groups}, together;
  std::vector<int64_t> order{0, 2, 1};
  for (size_t axis = 0; axis < 2; ++axis) {
    const auto channels = c.dim(weights, static_cast<int64_t>(axis)).as_constant();
    if (!channels || *channels == 0 || (axis == 0 && *channels % op.groups != 0)) return std::nullopt;
    apart.emplace_back(axis == 0 ? *channels / op.groups : *channels);
  }
  together = {apart[2] * Dim(op.groups), apart[1]};
  for (size_t i = 0; i < count; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const Dim size = c.dim(weights, axis), reach = (size - Dim(1)) * Dim(op.dilations[i]);
    const bool is_one = c.dim(inputs[0], axis) == Dim(1) && (op.groups > 1 || size == Dim(1));
    if ((op.strides[i] != 1 && !is_one) || size == Dim(0)) return std::nullopt;
    for (const size_t end : {i, count + i}) {
      conv.pads[end] = reach - op.pads[end] + (end == i ? Dim(0) : op.output_padding[i]);
      if (const auto low = conv.pads[end].lower_bound(); !low || *low < 0) return std::nullopt;
    }
    apart.push_back(size);
    together.push_back(size);
    order.push_back(axis + 1);
    if (size == Dim(1)) continue;
    turned.axes.push_back(axis);
    turned.starts.push_back(size - Dim(1));
    turned.counts.push_back(size);
    turned.steps.push_back(-1);
  }
  ValueId swapped = c.reshape(c.add(ops::Transpose{order}, {c.reshape(weights, apart)}), together);
  if (!turned.axes.empty()) swapped = c.add(std::move(turned), {swapped});
  Values operands = inputs;
  operands[1] = swapped;
  return c.result(std::move(conv), std::move(operands));
}

Values conv_transpose(ConvertContext& c) {
  const ValueId x = c.input(0), weights = c.input(1);
  check_ranks(c, x, weights);
  const std::vector<int64_t> kernel = kernel_of(c, weights);
  const size_t count = kernel.size();
  if (c.has_attribute("kernel_shape") && positive_ints(c, "kernel_shape", count) != kernel)
    c.invalid("attribute 'kernel_shape' is not the shape of the weights");
  ops::ConvTranspose op;
  op.strides = positive_ints(c, "strides", count);
  op.dilations = positive_ints(c, "dilations", count);
  op.groups = c.int_attribute("group", 1);
  const auto extra = c.ints_attribute("output_padding").value_or(std::vector<int64_t>(count, 0));
  if (extra.size() != count) c.invalid(fmt::format("{} output paddings for {} spatial axes", extra.size(), count));
  op.output_padding.assign(extra.begin(), extra.end());
  op.pads.assign(2 * count, Dim(0));
  const std::string auto_pad = c.string_attribute("auto_pad", "NOTSET");
  const auto sizes = c.ints_attribute("output_shape");
  if (sizes && sizes->size() != count && sizes->size() != count + 2)
    c.invalid(fmt::format("output_shape has {} sizes for {} spatial axes", sizes->size(), count));
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty())
    c.invalid(fmt::format("auto_pad '{}' is unknown", auto_pad));
  if (sizes || same) {
    // The pads follow from the wanted size; of an odd total, SAME_UPPER puts the larger half at the end.
    for (size_t i = 0; i < count; ++i) {
      const Dim in = c.dim(x, static_cast<int64_t>(i) + 2);
      const Dim out = sizes ? Dim((*sizes)[sizes->size() - count + i]) : in * Dim(op.strides[i]);
      const Dim reach = ops::window_extent(kernel[i], op.dilations[i]);
      const Dim full = Dim(op.strides[i]) * (in - Dim(1)) + Dim(extra[i]) + reach;
      const Dim total = full - out;
      if (const auto high = total.upper_bound(); high && *high < 0) {
        op.output_padding[i] = op.output_padding[i] - total;
        continue;
      }
      const Dim less = floor_div(total, 2);
      op.pads[i] = auto_pad == "SAME_UPPER" ? less : total - less;
      op.pads[count + i] = total - op.pads[i];
    }
  } else if (const auto pads = c.ints_attribute("pads"); pads && auto_pad != "VALID") {
    if (pads->size() != 2 * count) c.invalid(fmt::format("{} pads for {} spatial axes", pads->size(), count));
    op.pads.assign(pads->begin(), pads->end());
  }
  Values inputs{x, weights};
  if (c.has(2)) inputs.push_back(c.input(2));
  if (op.groups > 0)
    if (auto convolution = as_convolution(c, op, inputs)) return *convolution;
  return c.result(std::move(op), std::move(inputs));
}

constexpr Converter contraction_table[] = {
    {"Conv", conv}, {"ConvTranspose", conv_transpose}, {"Einsum", einsum}, {"Gemm", gemm}, {"MatMul", matmul},
};

}  // namespace

namespace {

// `append` adds the last operator.
template <class Append>
ValueId matmul(ConvertContext& c, Op op, Values operands, Append&& append) {
  const ValueId a = operands[0], b = operands[1];
  const int64_t rank_a = c.rank(a), rank_b = c.rank(b);
  if (rank_a == 0 || rank_b == 0) c.invalid("a scalar cannot be multiplied as a matrix");
  if (rank_a > 1 && rank_b > 1) return append(std::move(op), std::move(operands));
  if (rank_a == 1) operands[0] = c.reshape(a, {1, c.dim(a, 0)});
  if (rank_b == 1) operands[1] = c.reshape(b, {c.dim(b, 0), 1});
  const ValueId product = c.add(std::move(op), std::move(operands));
  Shape shape = c.shape(product);
  if (rank_b == 1) shape.pop_back();
  if (rank_a == 1) shape.erase(shape.end() - (rank_b == 1 ? 1 : 2));
  return append(ops::Reshape{std::move(shape)}, Values{product});
}

}  // namespace

ValueId matmul(ConvertContext& c, ValueId a, ValueId b) {
  return matmul(c, ops::MatMul{}, {a, b},
                [&](Op op, Values inputs) { return c.result_at(0, std::move(op), std::move(inputs)); });
}

ValueId inner_matmul(ConvertContext& c, Op product, Values operands) {
  return matmul(c, std::move(product), std::move(operands),
                [&](Op op, Values inputs) { return c.add(std::move(op), std::move(inputs)); });
}

std::span<const Converter> contraction_converters() {
  return contraction_table;
}

}  // namespace camshaft::onnx
