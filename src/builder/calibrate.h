// Ranges of a model's tensors, from data.
#pragma once

#include <string>
#include <vector>

#include "builder/builder.h"
#include "quantize/calibration.h"
#include "quantize/calibrators.h"
#include "quantize/collect_numbers.h"

namespace camshaft {

struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::mse;
  double percentile = 99.99;  ///< of that method: the share of magnitudes that are not clipped, in (0, 100]
  bool results = false;       ///< also ranges of results_to_calibrate()
};

/// What was seen of a tensor, and the range that came of it.
struct CalibratedTensor {
  std::string name;
  TensorRange range;
  cpu::NumberSummary seen;
};

struct CalibrationReport {
  Calibration calibration;
  /// In the order of the engine; also those without a finite number, which have no range.
  std::vector<CalibratedTensor> tensors;
  int64_t batches = 0, samples = 0;
  /// Making the engine, waiting for data, running with the numbers counted, and choosing ranges.
  double seconds_build = 0, seconds_data = 0, seconds_run = 0, seconds_ranges = 0;
  /// What looks wrong, in words: too little data, tensors that are constant, empty or have NaN.
  std::vector<std::string> warnings;
};

/// Runs the model in fp32 on what `next` gives, and chooses a range for each tensor that int8 quantisation of it needs
/// (tensors_to_calibrate()). Of the options of a build those of the device, threads, shapes, tuning, limits, progress
/// and cancellation count. Throws Error like Builder::build() and collect_numbers(), and Error(invalid_argument) for no
/// data, data that gives no tensor a finite number, a percentile out of range, and a model without such tensors.
CalibrationReport calibrate(const std::string& model_path, const BuildOptions& build,
                            const CalibrationOptions& calibration, const NextBatch& next);

}  // namespace camshaft
