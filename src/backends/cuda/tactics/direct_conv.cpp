#include "backends/cuda/tactics/direct_conv.h"

#include <fmt/format.h>

#include "backends/cuda/tactics/strided_copy.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/spatial.h"

namespace camshaft::cuda {

namespace {

// Kernels count positions in 32 bits.
int32_t position(int64_t value) {
  constexpr int64_t most = int64_t{1} << 29;
  if (value < -most || value > most)
    throw Error(ErrorCode::unsupported,
                fmt::format("a convolution reaches position {}, more than the GPU's kernels count to (2^29)", value));
  return static_cast<int32_t>(value);
}

}  // namespace

std::optional<DirectView> view_direct(const RegionView& region, ContractView contract, const Dims& strides,
                                      const Dims& dilations, const DeviceFacts& device) {
  if (contract.anchor_inputs.size() < 2) return std::nullopt;
  DirectView view;
  view.x = contract.anchor_inputs[0];
  view.weights = contract.anchor_inputs[1];
  if (view.x < 0 || view.weights < 0) return std::nullopt;
  const auto input = [&](int32_t i) { return region.node.inputs[static_cast<size_t>(i)]; };
  const TensorType &x = region.graph.type(input(view.x)), &w = region.graph.type(input(view.weights));
  view.dtype = x.dtype;
  const bool known_type = x.dtype == DType::f32 || x.dtype == DType::f16 || x.dtype == DType::bf16;
  if (!known_type || w.dtype != x.dtype || (x.dtype == DType::bf16 && !device.features.bf16_products) ||
      (x.shape.size() != 3 && x.shape.size() != 4) || !region.graph.value(input(view.weights)).constant)
    return std::nullopt;
  for (const Dim& d : w.shape) {
    view.weight_dims.push_back(d.as_constant().value_or(0));
    if (view.weight_dims.back() < 1) return std::nullopt;
  }
  const size_t skipped = 4 - view.weight_dims.size();
  if (skipped == 1) view.weight_dims.insert(view.weight_dims.begin() + 2, 1);
  constexpr int64_t most = 1024;
  for (size_t a = skipped; a < 2; ++a) {
    view.window.kernel[a] = view.weight_dims[2 + a];
    view.window.stride[a] = strides[a - skipped];
    view.window.dilation[a] = dilations[a - skipped];
    if (view.window.kernel[a] > most || view.window.stride[a] > most || view.window.dilation[a] > most)
      return std::nullopt;
  }
  const int32_t bias = contract.anchor_inputs.size() > 2 ? contract.anchor_inputs[2] : -1;
  auto epilogue = device_epilogue(region, contract, bias);
  if (!epilogue) return std::nullopt;
  view.epilogue = std::move(*epilogue);
  view.contract = std::move(contract);
  return view;
}

ImageShape image_shape(const DirectView& view, const Shape& pads, int64_t in_channels, int64_t out_channels,
                       const KernelShapes& shapes) {
  const OperandShape &x = shapes.inputs[static_cast<size_t>(view.x)], &out = shapes.outputs[0];
  const bool is_2d = x.dims.size() == 4;
  require_equal(x.dims.back(), in_channels, "the number of input channels of a convolution");
  if (const auto& inputs = view.contract.anchor_inputs; inputs.size() > 2 && inputs[2] >= 0)
    require_equal(shapes.inputs[static_cast<size_t>(inputs[2])].dims[0], out_channels,
                  "the number of biases of a convolution");
  check_elements(element_count(out.dims), "a convolution");
  check_elements(element_count(x.dims), "a convolution's input");
  ImageShape s;
  s.batch = out.dims[0];
  s.out_h = is_2d ? out.dims[1] : 1;
  s.out_w = out.dims[out.dims.size() - 2];
  position(s.out_h * view.window.stride[0]);
  position(s.out_w * view.window.stride[1]);
  s.top = is_2d ? position(ops::evaluate_pad(pads[0], *shapes.symbols)) : 0;
  s.left = position(ops::evaluate_pad(pads[pads.size() / 2 - 1], *shapes.symbols));
  s.in_h = is_2d ? position(x.dims[1]) : 1;
  s.in_w = position(x.dims[x.dims.size() - 2]);
  s.pixel = x.pitch();
  s.row = s.in_w * s.pixel;
  s.image = s.in_h * s.row;
  s.is_empty = element_count(x.dims) == 0;
  return s;
}

}  // namespace camshaft::cuda
