// Tensors in steps, as passes find them behind a Dequantize or before a Quantize.
#pragma once

#include <optional>

#include "ir/ops/quantize.h"
#include "optimize/analysis/match.h"

namespace camshaft {

/// What steps stand for: (step - zero) · scale. Values of the graph.
struct QuantizationParameters {
  ValueId scale = no_value;
  ValueId zero = no_value;  ///< or none: 0
  int64_t axis = 0;         ///< that parameters of rank 1 belong to
};

struct Steps {
  ValueId steps = no_value;
  QuantizationParameters parameters;
};

/// The steps that a value of f32 is made of by a Dequantize without blocks; nullopt where it is made otherwise.
std::optional<Steps> dequantized(const Graph& graph, Producers& producers, ValueId id);

/// One scale and one zero point for the whole tensor.
bool is_per_tensor(const Graph& graph, const QuantizationParameters& parameters);
/// The same numbers: the same values, or constants that are equal.
bool are_equal(const Graph& graph, const QuantizationParameters& a, const QuantizationParameters& b);

}  // namespace camshaft
