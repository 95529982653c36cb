#include "cpu/spatial_view.h"

#include "cpu/shape_check.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t max_pad = int64_t{1} << 31;  // the sums of positions in the kernels then stay far from overflow

}  // namespace

std::optional<SpatialView> view_spatial(const RegionView& region) {
  std::optional<ContractView> contract = view_contract(region);
  if (!contract || contract->anchor_inputs.size() < 2) return std::nullopt;
  const int32_t bias = contract->anchor_inputs.size() > 2 ? contract->anchor_inputs[2] : -1;
  const auto type = [&](int32_t i) -> const TensorType& {
    return region.graph.type(region.node.inputs[static_cast<size_t>(i)]);
  };
  const int32_t x = contract->anchor_inputs[0], weights = contract->anchor_inputs[1];
  const size_t rank = type(x).shape.size();
  if (type(x).dtype != DType::f32 || type(weights).dtype != DType::f32 || (rank != 3 && rank != 4)) return std::nullopt;
  if (bias >= 0 && type(bias).dtype != DType::f32) return std::nullopt;
  const auto& constant = region.graph.value(region.node.inputs[static_cast<size_t>(weights)]).constant;
  if (!constant) return std::nullopt;
  for (const int64_t d : constant->dims())
    if (d < 1) return std::nullopt;
  std::optional<ContractEpilogue> epilogue = ContractEpilogue::make(region, *contract, bias);
  if (!epilogue) return std::nullopt;
  return SpatialView{std::move(*contract), std::move(*epilogue), x, weights, constant->dims()};
}

std::array<int64_t, 4> pads_of(const Shape& pads, const SymbolBindings& symbols) {
  const auto pad = [&](size_t i) {
    const int64_t size = pads[i].evaluate(symbols);
    if (size < -max_pad || size > max_pad)
      throw Error(ErrorCode::invalid_argument, "a padding of " + std::to_string(size) + " is too large");
    return size;
  };
  if (pads.size() == 2) return {0, pad(0), 0, pad(1)};
  return {pad(0), pad(1), pad(2), pad(3)};
}

void require_bias(const SpatialView& view, const KernelShapes& shapes, int64_t out_channels) {
  if (view.contract.anchor_inputs.size() <= 2 || view.contract.anchor_inputs[2] < 0) return;
  const Dims& bias = shapes.inputs[static_cast<size_t>(view.contract.anchor_inputs[2])].dims;
  require_equal(bias[0], out_channels, "the number of biases of a convolution");
}

}  // namespace camshaft::cpu
