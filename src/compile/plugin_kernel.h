// The tactics of plugins' operators: they run on the host, for every backend.
#pragma once

#include <vector>

#include "compile/backend.h"

namespace camshaft {

/// The tactics of a region that is one operator of a plugin; empty for other regions. Seconds are the plugin's own, or
/// what its operands take at `seconds_per_byte`.
std::vector<TacticOffer> plugin_offers(const RegionView& region, double seconds_per_byte);

/// The kernel of one of these.
std::shared_ptr<const Kernel> make_plugin_kernel(const RegionView& region, const TacticParameters& parameters);

}  // namespace camshaft
