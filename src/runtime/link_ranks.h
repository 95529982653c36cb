// How ranks find out whether their devices can meet.
#pragma once

#include <string>

#include "compile/backend.h"

namespace camshaft {

/// Before a rank's first run over a communicator, all ranks call it at the same time: gives the communicator a link
/// where the devices of all can have one; else a warning says once what is in the way, unless that is that a rank has
/// no such device. Throws as Communicator::exchange() does, and Error(invalid_argument) for a backend of another device
/// than that of the link.
void link_ranks(Communicator& communicator, const Backend& backend);

/// What ranks that can run together over a link say alike of a graph's collectives: over a link they would wait for
/// each other for ever otherwise. Those of sizes that only running tells do not go over one.
std::string described_collectives(const Graph& graph, const SymbolBindings& symbols);

/// Over a link, before each run: throws as Communicator::exchange() does where another rank says otherwise.
void meet_for_run(Communicator& communicator, const std::string& collectives);

}  // namespace camshaft
