// Chains: regions whose parts are layers of their own, which a backend may run without writing what lies between.
#pragma once

#include "compile/backend.h"

namespace camshaft {

/// A region of kind chain, with its body.
bool is_chain(const Node& node);

/// What a tuner may decide for a chain besides a backend's tactics: its parts run one by one, as if it were none. See
/// tune/settle_chains.h.
inline constexpr std::string_view steps_tactic = "steps";

/// The chain's body as a graph whose nodes a backend can be asked about: its inputs have the names of the chain's
/// operands, and are constants where those are.
Graph open_chain(const RegionView& chain);

/// backend.tactics(), and for chains "steps" in place of the reference evaluation.
std::vector<Tactic> tactics_of(const Backend& backend, const RegionView& region);

}  // namespace camshaft
