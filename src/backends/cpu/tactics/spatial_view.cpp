#include "backends/cpu/tactics/spatial_view.h"

#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t max_pad = int64_t{1} << 31;

}  // namespace

int64_t pad_of(const Dim& pad, const SymbolBindings& symbols) {
  const int64_t size = pad.evaluate(symbols);
  if (size < -max_pad || size > max_pad)
    throw Error(ErrorCode::invalid_argument, "a padding of " + std::to_string(size) + " is too large");
  return size;
}

std::optional<SpatialView> view_spatial(const RegionView& region, const ContractTakes& takes) {
  std::optional<ContractView> contract = view_contract(region);
  if (!contract || contract->anchor_inputs.size() < 2) return std::nullopt;
  const int32_t bias = contract->anchor_inputs.size() > 2 ? contract->anchor_inputs[2] : -1;
  const auto type = [&](int32_t i) -> const TensorType& {
    return region.graph.type(region.node.inputs[static_cast<size_t>(i)]);
  };
  const int32_t x = contract->anchor_inputs[0], weights = contract->anchor_inputs[1];
  const size_t rank = type(x).shape.size();
  const bool rounded = type(x).dtype == DType::bf16;
  if ((type(x).dtype != DType::f32 && !(rounded && takes.rounded)) || type(weights).dtype != DType::f32)
    return std::nullopt;
  if (rank < 3 || rank > 5) return std::nullopt;
  if (bias >= 0 && type(bias).dtype != DType::f32) return std::nullopt;
  Dims dims;
  for (const Dim& d : type(weights).shape) {
    const auto size = d.as_constant();
    if (!size || *size < 1) return std::nullopt;
    dims.push_back(*size);
  }
  if (dims.size() != rank) return std::nullopt;
  const bool constant = region.graph.value(region.node.inputs[static_cast<size_t>(weights)]).constant != nullptr;
  std::optional<ContractEpilogue> epilogue = ContractEpilogue::make(region, *contract, bias, takes);
  if (!epilogue) return std::nullopt;
  return SpatialView{std::move(*contract), std::move(*epilogue), x, weights, std::move(dims), constant, rounded};
}

std::array<int64_t, 4> pads_of(const Shape& pads, const SymbolBindings& symbols) {
  const size_t axes = pads.size() / 2;
  const bool two = axes >= 2;
  return {two ? pad_of(pads[axes - 2], symbols) : 0, pad_of(pads[axes - 1], symbols),
          two ? pad_of(pads[2 * axes - 2], symbols) : 0, pad_of(pads[2 * axes - 1], symbols)};
}

std::array<int64_t, 2> depth_pads_of(const Shape& pads, const SymbolBindings& symbols) {
  if (pads.size() != 6) return {0, 0};
  return {pad_of(pads[0], symbols), pad_of(pads[3], symbols)};
}

void require_bias(const SpatialView& view, const KernelShapes& shapes, int64_t out_channels) {
  if (view.contract.anchor_inputs.size() <= 2 || view.contract.anchor_inputs[2] < 0) return;
  const Dims& bias = shapes.inputs[static_cast<size_t>(view.contract.anchor_inputs[2])].dims;
  require_equal(bias[0], out_channels, "the number of biases of a convolution");
}

}  // namespace camshaft::cpu
