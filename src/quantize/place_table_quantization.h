// Tables of embeddings in steps of i8.
#pragma once

#include "ir/graph.h"

namespace camshaft {

/// Puts a Quantize and a Dequantize behind the constant tables of f32 whose rows are gathered, each row with a scale of
/// its own: four times less memory for the most part of a small language model, and an error of a 254th of the largest
/// number in a row. Small tables stay. The graph is one that canonicalization() has run on.
void place_table_quantization(Graph& graph);

}  // namespace camshaft
