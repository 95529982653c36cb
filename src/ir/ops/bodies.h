// What the shape rules of operators with bodies share: what may go in, which sizes mean something outside. Internal to
// ops/.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft::ops {

/// Whether a value of type `given` may be one of type `wanted`.
bool fits(const TensorType& given, const TensorType& wanted);

/// Inputs [first, …) of the node are inputs [body_first, …) of the body: throws Error(invalid_argument) where they do
/// not fit.
void check_body_inputs(const InferContext& context, const Graph& body, size_t first, size_t body_first);

/// The sizes that have a meaning outside of the bodies: those made of symbols of the model's inputs, and of symbols
/// that the node's inputs have. All others belong to a body.
class VisibleDims {
 public:
  explicit VisibleDims(const InferContext& context);
  bool contain(const Dim& dim) const;

 private:
  std::set<std::string> names_;
};

}  // namespace camshaft::ops
