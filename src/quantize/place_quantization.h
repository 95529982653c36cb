// From a model in floating point and the ranges of its tensors to one with Quantize and Dequantize.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "optimize/precision_rules.h"
#include "quantize/calibration.h"
#include "quantize/channel_magnitudes.h"

namespace camshaft {

/// Layers by name, and why they are to stay in floating point.
using KeptLayers = std::map<std::string, std::string>;

/// What became of a layer that can be computed on 8 bits.
struct LayerPlacement {
  std::string layer;
  std::vector<std::string> sources;  ///< the model's nodes that it is made of
  bool quantized = false;
  LayerPrecision precision = LayerPrecision::int8;  ///< where it is quantised: int8 or fp8
  std::string reason;  ///< why it stays in floating point
  /// What it takes in floating point and in 8 bits, with what it is fused with and its conversions; 0 where that was not
  /// measured.
  double float_seconds = 0, int8_seconds = 0;
};

/// The tensors whose ranges place_quantization() asks for, by name, sorted and each once. The graph is one that
/// canonicalization() has run on.
std::vector<std::string> tensors_to_calibrate(const Graph& graph);

/// Those of tensors_to_calibrate() that may be divided channel by channel, and where their channels are.
std::map<std::string, ChannelAxis> channels_to_calibrate(const Graph& graph);

/// Puts a Quantize and a Dequantize around what the layers of quantizable_layers() read:
///
/// - activations in steps of u8, one scale and zero point a tensor, so that the calibrated range and 0 are among them;
/// - weights in steps of i8 without zero point, the largest magnitude of each output channel being step 127;
/// - a convolution's bias in steps of i32, whose scale is the product of the other two.
///
/// Where channels of what products read stand out, they are divided by the factors of migration_factors() before, and
/// the weights that read them multiplied by these. Where a convolution gives them, for such layers alone, its own
/// weights are divided instead, as migration_exponents() says; the tensor then has another name. Throws
/// Error(invalid_argument) where the calibration has another number of channels.
///
/// Other layers read an image in the same steps as the convolutions beside them, so that it need not be stored twice;
/// the inputs of a transformer's norms and residual additions stay in floating point. A layer without a range, or with
/// one that has no finite scale, stays as it is, as do those of `kept`. Scales of weights are computed by nodes of the
/// graph, which fold: constants know what they are made of.
///
/// With `precision` fp8 all are floats instead, f8e4m3 without zero points: the largest magnitude of a range, and of
/// weights of an output channel, is 448. Biases stay as they are, and no channels are divided: floats have exponents.
std::vector<LayerPlacement> place_quantization(Graph& graph, const Calibration& calibration,
                                               const KeptLayers& kept = {},
                                               LayerPrecision precision = LayerPrecision::int8);

}  // namespace camshaft
