// From how a tensor's numbers are distributed to the range that 8 bits are spread over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "quantize/calibration.h"
#include "quantize/histogram.h"

namespace camshaft {

enum class CalibrationMethod {
  entropy,     ///< least divergence of what 8 bits leave of the distribution
  minmax,      ///< all that was seen
  percentile,  ///< all but the largest magnitudes, by their share
  mse,         ///< least mean squared error
};
/// "entropy", "minmax", "percentile", "mse".
std::string_view to_string(CalibrationMethod method);
std::span<const std::string_view> calibration_method_names();
/// Throws Error(invalid_argument) that lists them.
CalibrationMethod parse_calibration_method(const std::string& name);

/// The magnitude at which each method clips a distribution: `bins` counts magnitudes in [b * width, (b + 1) * width).
/// The methods are those of NVIDIA's calibrators (pytorch-quantization and ModelOpt, `calib/histogram.py`) for signed 8
/// bits, which have 128 levels from 0 on. There are at least 128 bins, and something in one.

/// S. Migacz, "8-bit Inference with TensorRT" (GTC 2017): of all thresholds from bin 128 on the last one with the least
/// divergence (Kullback-Leibler) of the bins below it, merged to 128 levels and spread again over those that are not
/// empty, from the bins with all that is clipped in the last one. Bin 0 counts as much as bin 1.
float entropy_threshold(std::span<const uint64_t> bins, float width);
/// The end of the first bin below whose end are `percent` of all. `percent` in (0, 100].
float percentile_threshold(std::span<const uint64_t> bins, float width, double percent);
/// The first middle of a bin from 128 on with the least mean squared error, when every number is the middle of its bin.
float mse_threshold(std::span<const uint64_t> bins, float width);

/// What was seen, clipped on both sides by the method's threshold; never beyond what was seen. `percentile` is for that
/// method. Needs a finite number in the histogram; minmax needs no bins.
TensorRange calibrated_range(const Histogram& histogram, CalibrationMethod method, double percentile);

}  // namespace camshaft
