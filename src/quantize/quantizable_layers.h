// The layers of a model that can be computed on integers of 8 bits.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "quantize/channel_magnitudes.h"

namespace camshaft {

/// A convolution or product with constant weights, of a graph that canonicalization() has run on.
struct QuantizableLayer {
  size_t node = 0;           ///< index in Graph::nodes
  std::string name;          ///< the model's for it
  ValueId x = no_value;      ///< operand 0: what must be calibrated
  int64_t channel_axis = 0;  ///< of the weights, operand 1: each index has a scale of its own
  ChannelAxis read;          ///< of x: what the weights have factors for, whose products are summed
};

/// Those of the graph itself, in its order; bodies of loops and branches are left in floating point. What sums so many
/// products that 32 bits might not hold them is none.
std::vector<QuantizableLayer> quantizable_layers(const Graph& graph);

}  // namespace camshaft
