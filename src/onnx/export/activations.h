// Activations: the importer takes them apart into pointwise operators, and here they become one ONNX operator again, so
// that other software finds what it fuses and quantises (Conv and Relu above all).
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "onnx/export/attributes.h"
#include "onnx/export/model_builder.h"

namespace camshaft::onnx {

struct Activation {
  Operator op;
  std::vector<ValueId> inputs;
  Attributes attributes;
};

/// The activations of a graph that are spelled as the importer spells them: reading them back gives the same nodes. Of
/// what they are made of, nothing is read elsewhere.
class Activations {
 public:
  explicit Activations(const Graph& graph);
  /// The activation that ends with node n; null where none does.
  const Activation* find(size_t n) const;
  /// Whether node n is part of an activation, but not its end.
  bool is_inside(size_t n) const { return inside_[n]; }

 private:
  std::unordered_map<size_t, Activation> found_;  // by the last node
  std::vector<bool> inside_;
};

}  // namespace camshaft::onnx
