// What becomes of a node of a custom operator when its model is read: which of the library's tables it is, and what its
// outputs are.
#pragma once

#include <string>
#include <vector>

#include "plugin/ort/node_facts.h"
#include "plugin/ort/op_table.h"

namespace camshaft::ort {

/// The table that takes these operands; throws Error(invalid_argument) that says what none of them takes. `who` begins
/// the message.
const OpTable& table_for(const std::vector<OpTable>& tables, const NodeFacts& facts, const std::string& who);

/// All that kernels may ask of a node. Types and shapes of outputs are those of the operator's own shape inference, of
/// the model's declarations where that says nothing, or as those of the first operand, of unknown sizes.
NodeFacts read_node(const std::vector<OpTable>& tables, const PluginModelNode& node, const std::string& who);

}  // namespace camshaft::ort
