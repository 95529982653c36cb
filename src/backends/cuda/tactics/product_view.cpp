#include "backends/cuda/tactics/product_view.h"

#include <algorithm>

#include "compile/optimum.h"
#include "ir/ops/float8.h"
#include "ir/ops/quantized.h"

namespace camshaft::cuda {

const TensorType& input_type(const RegionView& region, int32_t i) {
  return region.graph.type(region.node.inputs[static_cast<size_t>(i)]);
}

namespace {

bool has_one_matrix(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end() - 2, [](const Dim& d) { return d == Dim(1); });
}

// A convolution whose windows are the pixels.
bool is_matrix(const ProductView& view) {
  const ops::Conv& op = *view.conv;
  const auto is_one = [](int64_t stride) { return stride == 1; };
  return op.groups == 1 && view.window[2] == 1 && view.window[3] == 1 &&
         std::all_of(op.strides.begin(), op.strides.end(), is_one) &&
         std::all_of(op.pads.begin(), op.pads.end(), [](const Dim& pad) { return pad == Dim(0); });
}

ContractWindow window_of(const ProductView& view) {
  const ops::Conv& op = *view.conv;
  const bool is_2d = op.strides.size() == 2;
  ContractWindow w{.channels = view.window[1], .height = view.window[2], .width = view.window[3]};
  w.stride_y = is_2d ? op.strides[0] : 1;
  w.stride_x = op.strides.back();
  w.dilation_y = is_2d ? op.dilations[0] : 1;
  w.dilation_x = op.dilations.back();
  // Neighbouring pixels of few channels, as an image has, are read as one of many.
  constexpr int64_t few = 1 << 10;
  if (w.channels % (128 / bit_width(view.form.dtype)) != 0 && op.groups == 1 && w.dilation_x == 1 && w.channels < few &&
      w.stride_x < few && w.width < few) {
    w.row_is_tap = true;
    w.channels *= w.width;
    w.stride_x *= view.window[1];
    w.width = 1;
  }
  return w;
}

// What is known of a convolution over an image of this shape; false where kernels cannot take it.
bool set_window(ProductView& view, const Shape& image, const Shape& weights, const ops::Conv& conv) {
  if (image.size() != 3 && image.size() != 4) return false;
  for (const Dim& d : weights) {
    const auto size = d.as_constant();
    if (!size || *size < 1) return false;
    view.window.push_back(*size);
  }
  if (view.window.size() == 3) view.window.insert(view.window.begin() + 2, 1);
  // Positions are 32-bit numbers in kernels.
  constexpr int64_t most_extent = int64_t{1} << 30;
  for (size_t d = 0; d < conv.strides.size(); ++d)
    if (conv.strides[d] > most_extent || conv.dilations[d] > most_extent / std::max(view.window[2], view.window[3]))
      return false;
  view.conv = conv;
  if (!is_matrix(view)) view.form.window = window_of(view);
  return true;
}

// Whether the constant B, and A if it is one matrix and aligned, can be copied as tensors.
bool can_copy_tensors(const ProductView& view, const DeviceFacts& device) {
  constexpr int64_t part = 32;
  return device.features.tensor_copies && view.rows && !view.form.window && !view.form.steps &&
         view.rows->held_rows() % part == 0 && (!view.matmul || !view.matmul->transpose_a);
}

}  // namespace

std::optional<ProductView> view_product(const RegionView& region, const DeviceFacts& device) {
  std::optional<ContractView> contract = view_contract(region, true);
  if (!contract || contract->anchor_inputs.size() < 2) return std::nullopt;
  ProductView view;
  view.a = contract->anchor_inputs[0];
  view.b = contract->anchor_inputs[1];
  if (view.a < 0 || view.b < 0) return std::nullopt;
  const TensorType &a = input_type(region, view.a), &b = input_type(region, view.b);
  view.form.dtype = a.dtype;
  if (b.dtype != a.dtype) return std::nullopt;
  if (a.dtype == DType::bf16 ? !device.features.bf16_products : a.dtype != DType::f32 && a.dtype != DType::f16)
    return std::nullopt;
  view.form.tensor_cores = a.dtype != DType::f32;
  const auto allows_tf32 = [&](ops::Rounding most) {
    return most != ops::Rounding::none && a.dtype == DType::f32 && device.features.tf32_products;
  };
  const bool is_constant = region.graph.value(region.node.inputs[static_cast<size_t>(view.b)]).constant != nullptr;
  int32_t bias = -1;
  if (const auto* matmul = contract->anchor->op.as<ops::MatMul>()) {
    view.matmul = matmul;
    view.form.tf32 = allows_tf32(matmul->rounding);
    if (is_constant && has_one_matrix(b.shape)) {
      const int64_t first = *b.shape[b.shape.size() - 2].as_constant(), last = *b.shape.back().as_constant();
      if (first == 0 || last == 0) return std::nullopt;
      view.rows.emplace(matmul->transpose_b ? first : last, 1, matmul->transpose_b ? last : first, !matmul->transpose_b,
                        b.dtype);
    } else {
      view.form.b_by_columns = !matmul->transpose_b && view.form.tensor_cores;
    }
  } else if (const auto* conv = contract->anchor->op.as<ops::Conv>()) {
    if (!conv->channels_last || !is_constant || !set_window(view, a.shape, b.shape, *conv)) return std::nullopt;
    view.form.tf32 = allows_tf32(conv->rounding);
    view.rows.emplace(view.window[0], view.window[2] * view.window[3], view.window[1], false, b.dtype);
    if (contract->anchor_inputs.size() > 2) bias = contract->anchor_inputs[2];
  } else {
    return std::nullopt;
  }
  auto epilogue = device_epilogue(region, *contract, bias);
  if (!epilogue) return std::nullopt;
  view.epilogue = std::move(*epilogue);
  // Rows of a norm are those of one matrix, whose parts lie within a tile.
  view.form.finishes_rows = view.epilogue.norm || view.epilogue.gives_moments;
  if (view.form.finishes_rows && (!view.matmul || !view.rows || view.matmul->transpose_a)) return std::nullopt;
  view.contract = std::move(*contract);
  view.form.tensor_copies = can_copy_tensors(view, device);
  return view;
}

namespace {

// The number that a constant zero point is; nullopt for others. One that is left out is 0.
std::optional<int32_t> zero_point(const RegionView& region, int32_t i) {
  if (i < 0) return 0;
  const Tensor* zeros = region.constant(static_cast<size_t>(i));
  if (!zeros || zeros->size() == 0) return std::nullopt;
  const std::vector<double> numbers = zeros->to_doubles();
  const bool is_uniform = std::all_of(numbers.begin(), numbers.end(), [&](double n) { return n == numbers[0]; });
  return is_uniform ? std::optional(static_cast<int32_t>(numbers[0])) : std::nullopt;
}

// Of a product of bytes by one constant matrix; false where that is something else.
bool set_matrix(ProductView& view, const TensorType& b) {
  static const ops::MatMul plain{};
  if (!has_one_matrix(b.shape)) return false;
  const int64_t first = *b.shape[b.shape.size() - 2].as_constant(), last = *b.shape.back().as_constant();
  if (first == 0 || last == 0) return false;
  view.matmul = &plain;
  view.rows.emplace(last, 1, first, true, b.dtype);
  return true;
}

}  // namespace

std::optional<ProductView> view_byte_product(const RegionView& region, const DeviceFacts& device) {
  if (!device.features.int8_products) return std::nullopt;
  std::optional<ContractView> contract = view_byte_contract(region);
  if (!contract) return std::nullopt;
  std::vector<int32_t> inputs = contract->anchor_inputs;
  inputs.resize(5, -1);
  ProductView view;
  view.a = inputs[0];
  view.b = inputs[1];
  const TensorType &a = input_type(region, view.a), &b = input_type(region, view.b);
  const bool is_constant = region.graph.value(region.node.inputs[static_cast<size_t>(view.b)]).constant != nullptr;
  const auto x_zero = zero_point(region, inputs[2]);
  if ((a.dtype != DType::i8 && a.dtype != DType::u8) || b.dtype != DType::i8 || !is_constant || !x_zero ||
      zero_point(region, inputs[3]) != 0)
    return std::nullopt;
  view.form.dtype = a.dtype;
  view.form.tensor_cores = true;
  view.bytes = {.x_zero = *x_zero, .bias = inputs[4]};
  if (const auto* conv = contract->anchor->op.as<ops::IntegerConv>()) {
    const ops::Conv plain{conv->strides, conv->pads, conv->dilations, conv->groups, conv->channels_last};
    const bool knows_bias = inputs[4] < 0 || region.constant(static_cast<size_t>(inputs[4]));
    if (!conv->channels_last || !knows_bias || !set_window(view, a.shape, b.shape, plain)) return std::nullopt;
    view.rows.emplace(view.window[0], view.window[2] * view.window[3], view.window[1], false, b.dtype);
    if (view.form.window) view.form.window->padding = static_cast<uint8_t>(*x_zero);
  } else if (!contract->anchor->op.as<ops::IntegerMatMul>() || !set_matrix(view, b)) {
    return std::nullopt;
  }
  contract->anchor_inputs = {view.a, view.b, view.bytes->bias};
  auto epilogue = device_epilogue(region, *contract, -1);
  if (!epilogue) return std::nullopt;
  view.epilogue = std::move(*epilogue);
  view.contract = std::move(*contract);
  view.form.tensor_copies = can_copy_tensors(view, device);
  return view;
}

std::optional<ProductView> view_float8_product(const RegionView& region, const DeviceFacts& device) {
  if (!device.features.fp8_products) return std::nullopt;
  std::optional<ContractView> contract = view_byte_contract(region);
  if (!contract || contract->result.dtype != DType::f32) return std::nullopt;
  ProductView view;
  view.a = contract->anchor_inputs[0];
  view.b = contract->anchor_inputs[1];
  const TensorType &a = input_type(region, view.a), &b = input_type(region, view.b);
  if (!region.graph.is_constant(region.node.inputs[static_cast<size_t>(view.b)])) return std::nullopt;
  view.form.dtype = a.dtype;
  view.form.tensor_cores = true;
  if (const auto* conv = contract->anchor->op.as<ops::Float8Conv>()) {
    const ops::Conv plain{conv->strides, conv->pads, conv->dilations, conv->groups, conv->channels_last};
    if (!conv->channels_last || !set_window(view, a.shape, b.shape, plain)) return std::nullopt;
    view.rows.emplace(view.window[0], view.window[2] * view.window[3], view.window[1], false, b.dtype);
  } else if (contract->anchor->op.as<ops::Float8MatMul>()) {
    if (!set_matrix(view, b)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  auto epilogue = device_epilogue(region, *contract, -1);
  if (!epilogue) return std::nullopt;
  view.epilogue = std::move(*epilogue);
  view.contract = std::move(*contract);
  view.form.tensor_copies = can_copy_tensors(view, device);
  return view;
}

ContractSize size_at_optimum(const RegionView& region, const ProductView& view) {
  const double result = elements_at_optimum(region, region.node.outputs[0]);
  ContractSize size;
  if (view.conv) {
    size.batch = static_cast<double>(view.conv->groups);
    size.n = static_cast<double>(view.window[0]) / size.batch;
    size.k = static_cast<double>(view.window[1] * view.window[2] * view.window[3]);
    size.m = result / static_cast<double>(view.window[0]);
    return size;
  }
  const Shape &a = input_type(region, view.a).shape, &c = view.contract.result.shape;
  size.n = size_at_optimum(region, c.back());
  size.k = camshaft::size_at_optimum(region, a[a.size() - (view.matmul->transpose_a ? 2 : 1)]);
  size.m = result / std::max(1.0, size.n);
  if (!view.rows || view.matmul->transpose_a) {
    const double m = camshaft::size_at_optimum(region, c[c.size() - 2]);
    size.batch = size.m / std::max(1.0, m);
    size.m = m;
  }
  return size;
}

}  // namespace camshaft::cuda
