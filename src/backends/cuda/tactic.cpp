#include "backends/cuda/tactic.h"

#include <fmt/format.h>

#include <algorithm>

namespace camshaft::cuda {

std::vector<TacticOffer> CudaTactic::offers(const RegionView& region, const Workshop& workshop) const {
  if (offers_) return offers_(region, workshop);
  const std::optional<double> seconds = estimate_(region, workshop.device()->facts());
  if (!seconds) return {};
  return {{.seconds = *seconds}};
}

std::shared_ptr<const Kernel> CudaTactic::compile(const RegionView& region, const TacticParameters& parameters,
                                                  const Workshop& workshop, PackedConstants& constants) const {
  const std::vector<TacticOffer> offered = offers(region, workshop);
  if (std::none_of(offered.begin(), offered.end(), [&](const TacticOffer& o) { return o.parameters == parameters; }))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the GPU has no tactic '{}' for {}",
                    Tactic{.name = std::string(name_), .parameters = parameters}.str(), to_string(region.node.op)));
  if (compile_variant_) return compile_variant_(region, parameters, workshop, constants);
  return compile_ ? compile_(region, workshop) : compile_with_constants_(region, workshop, constants);
}

}  // namespace camshaft::cuda
