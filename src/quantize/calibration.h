// What calibration finds out about a model: the ranges of its activations.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace camshaft {

/// What the numbers of a tensor lie between, as a calibrator chose it: what is outside is clipped. min <= max, both
/// finite.
struct TensorRange {
  float min = 0;
  float max = 0;
  bool operator==(const TensorRange&) const = default;
};

/// The ranges of tensors, by the names that the model gives them.
struct Calibration {
  std::string method;  ///< how they were chosen: "entropy", "minmax", "percentile", "mse"; empty: by hand
  std::map<std::string, TensorRange> ranges;
  /// Of tensors whose channels differ much: the largest magnitude of each channel, finite and not negative (see
  /// quantize/migrate_channels.h).
  std::map<std::string, std::vector<float>> channels = {};
  /// What rounding to 256 steps of the range leaves as noise, as a part of a sample's power, the mean over all samples:
  /// from 0 to 1 (see quantize/signal_powers.h).
  std::map<std::string, float> noise = {};
  bool operator==(const Calibration&) const = default;
};

}  // namespace camshaft
