// From an ONNX model of floating point to one with QuantizeLinear and DequantizeLinear.
#pragma once

#include <string>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/options.hpp"
#include "camshaft/report.hpp"

namespace camshaft {
inline namespace v1 {

struct QuantizeReport : RewriteReport {
  /// The convolutions and products with constant weights, and which of them are computed in 8 bits.
  std::vector<LayerPlacement> quantized_layers;
  /// Results of convolutions that no quantised layer reads and that are in steps all the same, as their ranges are
  /// known; and those without one. ONNX Runtime computes a convolution in floating point whose result is not in steps.
  int64_t results_in_steps = 0;
  std::vector<std::string> results_without_range;
};

/// Writes a model whose convolutions and products are quantised by the ranges of the option "calibration", which must
/// be given: activations in steps of u8, weights as initializers of i8, all else as simplify() writes it. With the
/// option "fp8" both are f8e4m3, whether the device has products of them or not.
/// "layer-precisions" and "precision-constraints" say what stays in floating point; other precisions are of no effect.
/// An engine of the new model is verified against what was quantised, unless "verify" is off; how far that is from the
/// model before, running both says. Throws what simplify() throws, and Error(invalid_argument) where nothing is
/// quantised, or for a calibration of another model.
inline QuantizeReport quantize(const std::string& model_path, const std::string& output_path,
                               const BuildOptions& options, bool external_data = false) {
  camshaft_record* handle = nullptr;
  const camshaft_status status =
      camshaft_quantize_file(model_path.c_str(), output_path.c_str(), options.handle(), external_data ? 1 : 0, &handle);
  const Record record(handle);
  if (status == CAMSHAFT_CANCELLED) options.rethrow();
  detail::check(status);
  return {detail::rewrite_report(record), record["quantized_layers"].list(detail::layer_placement),
          record["results_in_steps"].integer(), record["results_without_range"].texts()};
}

}  // namespace v1
}  // namespace camshaft
