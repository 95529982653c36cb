#include "cpu/spatial_view.h"

namespace camshaft::cpu {

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
  std::optional<ContractEpilogue> epilogue = ContractEpilogue::make(region, *contract, bias);
  if (!epilogue) return std::nullopt;
  return SpatialView{std::move(*contract), std::move(*epilogue), x, weights, constant->dims()};
}

std::array<int64_t, 4> pads_of(const Shape& pads, const SymbolBindings& symbols) {
  if (pads.size() == 2) return {0, pads[0].evaluate(symbols), 0, pads[1].evaluate(symbols)};
  return {pads[0].evaluate(symbols), pads[1].evaluate(symbols), pads[2].evaluate(symbols), pads[3].evaluate(symbols)};
}

}  // namespace camshaft::cpu
