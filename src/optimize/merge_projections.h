// Horizontal fusion of the products that make query, key and value.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Products of one value with several constant matrices become one product with all of them side by side, biases
/// included, where only attentions read the results: these read their columns of the common result in place. One launch
/// instead of three, and the value is read once: 1.82 ms instead of 1.86 for BERT's three at 1 x 128, more where
/// products are small. After recognize_attention.
void merge_projections(Graph& graph, const PassContext& context);

}  // namespace camshaft
