#include "cpu/tactic.h"

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

}  // namespace camshaft::cpu
