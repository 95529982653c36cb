// Scan: a body over the slices of tensors.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// ONNX's Scan (from operator set 9): (states…, scanned…, captures…) -> states…, collected…. bodies[0] is (states…,
/// slices…, captures…) -> states…, collected… and runs once for every place along the scanned inputs' axes, which are
/// equally long. States keep their sizes. Lists have one entry an input, or a collected output.
struct Scan {
  static constexpr std::string_view name = "scan";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;  // as captures
  int64_t states = 0;
  std::vector<int64_t> input_axes;
  std::vector<int64_t> input_reversed;  ///< 1: from the last slice to the first
  std::vector<int64_t> output_axes;     ///< where the new axis is
  std::vector<int64_t> output_reversed;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("states", self.states);
    visit("input_axes", self.input_axes);
    visit("input_reversed", self.input_reversed);
    visit("output_axes", self.output_axes);
    visit("output_reversed", self.output_reversed);
  }
  bool operator==(const Scan&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
