// What --int8 and --fp8 do to a model before it is compiled, and before the reference is taken.
#pragma once

#include <string>
#include <vector>

#include "optimize/pass.h"
#include "quantize/place_quantization.h"

namespace camshaft {

/// What a tensor may have of noise in steps (Calibration::noise) for layers to read it so: 20 dB below it. Numbers of
/// usual shape have 30 to 45; less have those with quiet samples beside loud ones, whose steps are too large for them.
constexpr float most_noise = 0.01F;

/// The graph as calibration and quantisation see it: canonical, so that batch normalisation is in the weights and
/// tensors with another range are gone, and branches of convolutions are one where 8 bits are enough for that.
void prepare_quantization(Graph& graph, const PassContext& context);

/// Throws Error(invalid_argument) for a model without quantised tensors of its own: `precision` needs a calibration of
/// it.
void check_quantized(const Graph& graph, LayerPrecision precision);

/// Prepares the graph, places Quantize and Dequantize by the ranges that were read from `file`, and with int8 quantises
/// tables. Says what became of each layer. What another precision is asked of (PassContext::rules) stays in floating
/// point, as do `kept` and, with int8, what reads a tensor of more than most_noise, unless int8 is asked of it. Throws
/// Error(invalid_argument) where most of the tensors that need a range have none: the file is then of another model.
std::vector<LayerPlacement> quantize_model(Graph& graph, const Calibration& calibration, const std::string& file,
                                           const KeptLayers& kept, const PassContext& context,
                                           LayerPrecision precision = LayerPrecision::int8);

}  // namespace camshaft
