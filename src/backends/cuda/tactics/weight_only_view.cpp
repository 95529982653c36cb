#include "backends/cuda/tactics/weight_only_view.h"

#include <algorithm>
#include <cmath>

#include "backends/cuda/tactics/bring_weights.h"
#include "backends/cuda/tactics/product_view.h"
#include "compile/constants/step_fragments.h"
#include "compile/optimum.h"

namespace camshaft::cuda {

bool WeightOnlyView::has_whole_zeros() const {
  if (!one_zero) return !has_real_zeros;
  return *one_zero == std::floor(*one_zero) && *one_zero >= 0 && *one_zero < std::ldexp(1.0, bits());
}

std::optional<WeightOnlyView> view_weight_only(const RegionView& region) {
  std::optional<ContractView> contract = view_contract(region);
  if (!contract) return std::nullopt;
  const auto* op = contract->anchor->op.as<ops::WeightOnlyMatMul>();
  if (!op || op->rounded_block != 0) return std::nullopt;
  auto epilogue = device_epilogue(region, *contract, -1);
  if (!epilogue) return std::nullopt;
  WeightOnlyView view{std::move(*contract), std::move(*epilogue), *op};
  view.contract.anchor = nullptr;
  std::vector<int32_t> inputs = view.contract.anchor_inputs;
  inputs.resize(4, -1);
  view.x = inputs[0], view.steps = inputs[1], view.scale = inputs[2], view.zero = inputs[3];
  for (const int32_t i : {view.steps, view.scale, view.zero})
    if (i >= 0 && !region.graph.is_constant(region.node.inputs[static_cast<size_t>(i)])) return std::nullopt;
  view.x_dtype = input_type(region, view.x).dtype;
  view.scale_dtype = input_type(region, view.scale).dtype;
  const TensorType& steps = input_type(region, view.steps);
  view.step_dtype = steps.dtype;
  view.k = steps.shape[op->transposed ? 1 : 0].value();
  view.n = steps.shape[op->transposed ? 0 : 1].value();
  constexpr int64_t most = int64_t{1} << 30;
  if (view.k == 0 || view.n == 0 || view.k > most || view.n > most) return std::nullopt;
  if (op->block % 16 != 0 && !view.is_one_block()) return std::nullopt;
  if (view.zero < 0) {
    view.one_zero = view.moved();
  } else if (input_type(region, view.zero).shape.empty()) {
    const Tensor* zero = region.constant(static_cast<size_t>(view.zero));
    if (!zero) return std::nullopt;
    view.one_zero = zero->to_doubles()[0] + view.moved();
  } else {
    view.has_real_zeros = is_floating(input_type(region, view.zero).dtype);
  }
  return view;
}

std::optional<WeightOnlyView> view_chained_weight_only(const RegionView& chain) {
  const auto chained = ChainedProduct::of(chain);
  if (!chained) return std::nullopt;
  auto view = view_weight_only(chained->product());
  if (!view || view->x != 0 || view->epilogue.reads(0)) return std::nullopt;
  view->before = view_prologue(*chained);
  if (!view->before) return std::nullopt;
  const std::vector<int32_t>& inputs = chained->inputs_of_product();
  use_inputs_of_chain(view->contract, view->epilogue, inputs);
  view->x = -1;
  for (int32_t* input : {&view->steps, &view->scale, &view->zero})
    if (*input >= 0) *input = inputs[static_cast<size_t>(*input)];
  return view;
}

double rows_at_optimum(const RegionView& region, const WeightOnlyView& view) {
  return elements_at_optimum(region, region.node.outputs[0]) / static_cast<double>(view.n);
}

std::shared_ptr<const DeviceSteps> bring_steps(const RegionView& region, const WeightOnlyView& view,
                                               const Workshop& workshop, PackedConstants& constants) {
  const StepFragments steps{view.bits(), view.k, view.n, view.op.transposed};
  const StepParameters parameters{view.blocks(), view.n, view.pitch(), view.op.transposed};
  const auto on_device = [&](std::span<const std::byte> bytes) { return bring_weights(workshop.device(), bytes); };
  auto made = std::make_shared<DeviceSteps>();
  made->steps = on_device(pack_steps(region, static_cast<size_t>(view.steps), steps, constants));
  made->scales = on_device(pack_step_parameters(region, static_cast<size_t>(view.scale), parameters, constants));
  if (!view.one_zero)
    made->zeros = on_device(pack_step_parameters(region, static_cast<size_t>(view.zero), parameters, constants));
  return made;
}

}  // namespace camshaft::cuda
