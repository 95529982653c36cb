#include "backends/cpu/tactics/plugin.h"

#include "compile/plugin_kernel.h"

namespace camshaft::cpu {

namespace {

std::vector<TacticOffer> plugin_offers_here(const RegionView& region) {
  return plugin_offers(region, seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_plugin(const RegionView& region, const TacticParameters& parameters,
                                             PackedConstants&) {
  return make_plugin_kernel(region, parameters);
}

}  // namespace

const CpuTactic plugin_tactic{"plugin", plugin_offers_here, compile_plugin};

}  // namespace camshaft::cpu
