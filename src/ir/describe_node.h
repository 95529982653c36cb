// Nodes in messages.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"

namespace camshaft {

/// "node 'conv1' (operator 'conv')", or of a plugin "node 'n' (operator 'my::Op' of the plugin libmine.so)".
std::string describe_node(const std::vector<std::string>& sources, const Op& op);

}  // namespace camshaft
