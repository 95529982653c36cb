// Constants of which nearly all elements are the same, as what is computed from that element and the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// What scatter_elements makes a tensor of, from a line as long as it of one element.
struct SparseConstant {
  Tensor element;           ///< of shape [1]
  Tensor indices, updates;  ///< i64 and of the tensor's type, both as many as differ; none where none does
};

/// nullopt where more than one element in 128 differs in its bits from the most frequent one, and for elements that are
/// no whole bytes.
std::optional<SparseConstant> sparse_constant(const Tensor& tensor);

/// Appends the nodes that compute it, and gives their value.
ValueId add_sparse_constant(Graph& graph, const SparseConstant& constant, const Shape& shape, const std::string& name,
                            const std::vector<std::string>& sources);

/// Whether the nodes of add_sparse_constant() make this value.
bool is_sparse_constant(const Graph& graph, const Uses& uses, ValueId id);

}  // namespace camshaft
