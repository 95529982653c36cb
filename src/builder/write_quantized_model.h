// A model of floating point written as one with QuantizeLinear and DequantizeLinear.
#pragma once

#include "builder/rewrite_model.h"

namespace camshaft {

struct QuantizeReport : RewriteReport {
  /// The convolutions and products with constant weights, and which of them are computed in 8 bits.
  std::vector<LayerPlacement> quantized_layers;
  /// Of convolutions' results, see place_result_quantization().
  int64_t results_in_steps = 0;
  std::vector<std::string> results_without_range;
};

/// Quantises what options.calibration has ranges of, as a build with options.int8 does, also the results of
/// convolutions (place_result_quantization()), and writes it, see rewrite_model(): weights as initializers of i8. With
/// options.fp8 as a build with that does, weights as initializers of f8e4m3; no device needs to have products of them.
/// options.layer_precisions say which layers stay in floating point, and options.constraints what becomes of those that
/// cannot be in 8 bits; no other precision is of any effect. An engine of the file is judged by the quantised graph:
/// how far quantisation moves results it does not say.
///
/// Throws what rewrite_model() and quantize_model() throw, and Error(invalid_argument) without a calibration, with both
/// int8 and fp8, where nothing is quantised, and for a rule that is not met and must be.
void write_quantized_model(const std::filesystem::path& model, const std::filesystem::path& output,
                           const BuildOptions& options, bool external_data, QuantizeReport& report);

}  // namespace camshaft
