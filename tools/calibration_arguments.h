// Options of the commands that calibrate: `calibrate` and `quantize`.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "camshaft/calibration.hpp"
#include "tools/calibration_data.h"

namespace camshaft::tools {

struct CalibrationArguments {
  std::string data, method = "mse", percentile, batch, max_samples, resize, crop, scale, channels = "rgb";
  std::vector<std::string> mean, std;

  /// Adds --data, how it is read and prepared, --method and --percentile to a command.
  void add_to(CLI::App& command);
  /// Throws Error(invalid_argument).
  CalibrationDataOptions data_options() const;
  /// The method. Throws Error(invalid_argument).
  void set(CalibrationOptions& options) const;
  /// Throws Error(invalid_argument) for options of pictures where the data are arrays.
  void check_fits(const CalibrationData& data) const;
};

}  // namespace camshaft::tools
