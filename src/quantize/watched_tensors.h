// Tensors of a model that an engine is to show as it computes them.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// A tensor of the model whose elements a value of an engine's plan has, in whatever order.
struct WatchedTensor {
  std::string name;
  std::vector<int64_t> axes;  ///< where each axis of the tensor is in the value; empty where they were split or merged
};

/// A value of an engine's plan that has the elements of tensors of the model.
struct WatchedValue {
  std::string value;
  std::vector<WatchedTensor> tensors;
  int32_t input = -1;  ///< it is this input of the engine, whose taps never fire; -1: none
};

/// Keeps tensors through all passes. In the engine they cost no more than being written: no copy, no change of layout,
/// and memory of the arena that is used again.
class WatchedTensors {
 public:
  /// Makes the tensors, named as the graph's values are, outputs behind the graph's own. Throws Error(invalid_argument)
  /// for a name that no value has.
  WatchedTensors(Graph& graph, std::vector<std::string> tensors);
  /// Once all passes have run: takes these outputs away again, but those that nothing else would keep. What only puts
  /// the elements of a value into the model's order is left out.
  std::vector<WatchedValue> settle(Graph& graph) const;

 private:
  std::vector<std::string> tensors_;
  std::vector<size_t> outputs_;  // of the graph, where each tensor is
  size_t own_outputs_;
};

}  // namespace camshaft
