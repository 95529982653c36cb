// Tensors whose channels can be divided by factors before they are put in steps.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "quantize/quantizable_layers.h"

namespace camshaft {

/// What layers read along one axis, whose weights take the factors up.
struct EvenableTensor {
  ChannelAxis axis;
  /// The convolution whose weights can give the tensor divided already, as layers alone read it, through a ReLU or
  /// nothing; -1: none.
  int32_t source = -1;
};

/// Of what `layers` of the graph read. What convolutions read is none where no convolution can give it divided: a
/// multiplication between a convolution, its bounds and their steps would keep runtimes from computing all in integers
/// (ONNX Runtime does so with MobileNetV2's ReLU6).
std::unordered_map<ValueId, EvenableTensor> evenable_tensors(const Graph& graph,
                                                             const std::vector<QuantizableLayer>& layers);

}  // namespace camshaft
