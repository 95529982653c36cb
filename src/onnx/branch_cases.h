// Branches whose results differ in rank, as in "if x.size(-1) == 1: x = x.squeeze(-1)".
#pragma once

#include <string>
#include <vector>

#include "onnx/node_importer.h"

namespace camshaft::onnx {

/// Thrown where an If gives results of different ranks: it cannot be a node, because a value has one rank. The graph
/// around it converts all that depends on it once for each branch; where the results of that graph differ too, the
/// graph around that one, and so on.
struct RanksDiffer {
  std::string what;
};

/// Converts an If (nodes[0]) whose branches differ in rank, and the nodes that depend on it (the others, in order),
/// which are the last ones of `scope`. What of `results`, the names that the graph gives, comes from them is then known
/// in `scope`.
///
/// They become one If, with all that depends on it in both branches, or what one branch makes of them where the
/// condition is known. Where one case is not a valid model (what follows does not take that rank), the other
/// one is what the model means: it is taken, and running checks the condition. Throws RanksDiffer when the results
/// still differ in rank, and Error(unsupported) when a model needs too many cases.
void add_cases(NodeImporter& importer, const std::vector<NodeProto>& nodes, const std::vector<std::string>& results,
               Scope& scope);

}  // namespace camshaft::onnx
