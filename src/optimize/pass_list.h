// Lists of passes, as backends make them.
#pragma once

#include <string>
#include <vector>

#include "optimize/pass.h"

namespace camshaft {

/// One pass, or several that enable each other: these run again and again until a whole round changes nothing.
struct PassStep {
  std::vector<Pass> passes;
  int most_rounds = 1;

  PassStep(const Pass& pass) : passes{pass} {}  // NOLINT: implicit on purpose
  PassStep(std::vector<Pass> set, int rounds) : passes(std::move(set)), most_rounds(rounds) {}
};

/// In the order in which they run.
using PassList = std::vector<PassStep>;

/// All passes of a backend. Between the stages somebody may look at the graph.
struct BackendPasses {
  /// On the model as the importer leaves it. The reference evaluation, which judges the engine, sees what they leave:
  /// they decide what the model means on this backend, not how it is computed.
  PassList meaning = {};
  /// Up to a graph of regions and plain nodes, also of the branches of Ifs.
  PassList form = {};
  /// Behind `form`, which decides what is stored at all: what it is stored as, and what follows from that.
  PassList precision = {};
};

/// Throws Error(internal), naming the pass, when one needs what no pass before it settles, or comes behind one that it
/// must come before. A set of several rounds comes behind itself.
void check_order(const BackendPasses& passes);

}  // namespace camshaft
