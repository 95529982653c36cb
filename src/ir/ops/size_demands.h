// Sizes that operators demand to be equal, which symbols alone do not show.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace camshaft::ops {

/// Two sizes of which one names a symbol: no run is possible where they differ.
struct SizeDemand {
  Dim a, b;
  bool broadcasts = false;  ///< one of them may also be 1

  /// False also where they cannot be evaluated (a division by zero).
  bool is_met(const SymbolBindings& symbols) const;
};

/// What every run of the graph demands: of the channels of convolutions, the axes that products sum over, and operands
/// that are broadcast. What bodies demand is left out, as they need not run, and so are sizes that only running tells.
std::vector<SizeDemand> size_demands(const Graph& graph);

}  // namespace camshaft::ops
