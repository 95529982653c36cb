#include "backends/cpu/tactics/integer_conv_view.h"

#include "ir/ops/quantized.h"

namespace camshaft::cpu {

std::optional<IntegerConvView> view_integer_conv(const RegionView& region) {
  std::optional<ContractView> contract = view_byte_contract(region);
  if (!contract) return std::nullopt;
  const auto* op = contract->anchor->op.as<ops::IntegerConv>();
  if (!op || !op->channels_last) return std::nullopt;
  std::optional<IntegerEpilogue> epilogue = IntegerEpilogue::make(region, *contract);
  if (!epilogue) return std::nullopt;
  std::vector<int32_t> inputs = contract->anchor_inputs;
  inputs.resize(5, -1);
  const ValueId weights = region.node.inputs[static_cast<size_t>(inputs[1])];
  const Shape& shape = region.graph.shape(weights);
  if (shape.size() < 3 || shape.size() > 5) return std::nullopt;
  Dims dims;
  for (const Dim& d : shape) {
    const auto size = d.as_constant();
    if (!size || *size < 1) return std::nullopt;
    dims.push_back(*size);
  }
  contract->anchor_inputs = {inputs[0], inputs[1], inputs[4]};
  SpatialView spatial{
      std::move(*contract), {}, inputs[0], inputs[1], std::move(dims), region.graph.is_constant(weights)};
  ConvView conv{std::move(spatial), ops::Conv{op->strides, op->pads, op->dilations, op->groups, true}};
  const auto dtype_of = [&](int32_t i) { return region.graph.type(region.node.inputs[static_cast<size_t>(i)]).dtype; };
  return IntegerConvView{std::move(conv), std::move(*epilogue), inputs[2],          inputs[3],
                         inputs[4],       dtype_of(inputs[0]),  dtype_of(inputs[1])};
}

}  // namespace camshaft::cpu
