// All passes, in order.
#pragma once

#include <string>
#include <vector>

#include "optimize/pass.h"

namespace camshaft {

/// Runs the first stage's passes on a graph as the importer leaves it: afterwards it consists of regions and plain
/// nodes, ready for compile/; branches of Ifs too. The verifier runs after each pass in debug builds or when the
/// context asks for it. The environment variable CAMSHAFT_TRACE=passes prints each pass's time and effect on the number
/// of nodes to stderr. Throws Error(cancelled) between passes.
void optimize(Graph& graph, const PassContext& context);

/// The second stage, behind optimize(), which decides what is stored at all, so that between them somebody may look
/// for what PassContext::storage cannot hold: stores values in that type, and makes use of it, unless that is f32; and
/// marks what PassContext::rounding allows. Verified, traced and cancelled like the first.
void optimize_storage(Graph& graph, const PassContext& context);

/// The passes of both stages in the order in which they run; PassContext::stop_after counts in this list.
std::vector<std::string> pass_names();

}  // namespace camshaft
