#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

std::vector<TacticOffer> CpuTactic::offers(const RegionView& region) const {
  if (offers_) return offers_(region);
  const std::optional<double> seconds = estimate_(region);
  if (!seconds) return {};
  return {{{}, *seconds}};
}

std::shared_ptr<const Kernel> CpuTactic::compile(const RegionView& region, const TacticParameters& parameters,
                                                 PackedConstants& constants) const {
  return compile_variant_ ? compile_variant_(region, parameters, constants) : compile_(region, constants);
}

double rounding_seconds(const RegionView& region, int32_t input) {
  // Of operands in L2 or L3, as they mostly are: 12 GB/s written.
  return 1.6e-10 * elements_at_optimum(region, region.node.inputs[static_cast<size_t>(input)]);
}

}  // namespace camshaft::cpu
