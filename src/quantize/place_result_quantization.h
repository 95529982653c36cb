// What convolutions give, in steps of u8.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "quantize/calibration.h"

namespace camshaft {

/// The results of the convolutions among quantizable_layers(), behind the bounds (ReLU, Clip) that are applied to them
/// alone: by name, sorted and each once; not outputs of the graph. The graph is one that canonicalization() has run on.
std::vector<std::string> results_to_calibrate(const Graph& graph);

/// Puts a Quantize and a Dequantize behind those of these results that are in no steps yet and have a range, once
/// place_quantization() has run. Our kernels add residuals to exact sums, and need none of it; runtimes whose integer
/// convolutions give integers alone, as ONNX Runtime's, compute a convolution in floating point without. Returns how
/// many are in steps, and names those that have no range.
struct PlacedResults {
  size_t placed = 0;
  std::vector<std::string> without_range;
};
PlacedResults place_result_quantization(Graph& graph, const Calibration& calibration);

}  // namespace camshaft
