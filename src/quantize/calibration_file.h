// Ranges in files: our own, and TensorRT's calibration cache.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quantize/calibration.h"

namespace camshaft {

enum class CalibrationFormat {
  json,      ///< our own, which keeps the method and both ends of a range
  tensorrt,  ///< the text that TensorRT's calibrators read and write, of symmetric ranges
};
/// "json", "tensorrt".
std::string_view to_string(CalibrationFormat format);
std::span<const std::string_view> calibration_format_names();
/// Throws Error(invalid_argument) that lists them.
CalibrationFormat parse_calibration_format(const std::string& name);

/// The same bytes for the same ranges. Throws Error(invalid_argument) for names that the format cannot hold, and for
/// ranges that are none: not finite, or a minimum above the maximum.
std::string calibration_text(const Calibration& calibration, CalibrationFormat format);
/// Of either format, by its content. Throws Error(invalid_argument) that names `file`, the line, and what is wrong in
/// it.
Calibration parse_calibration(std::string_view text, const std::string& file);

/// Writes the file whole or not at all. Throws Error(io), and what calibration_text() throws.
void write_calibration(const Calibration& calibration, const std::string& path, CalibrationFormat format);
/// Throws Error(io), and what parse_calibration() throws.
Calibration read_calibration(const std::string& path);

/// Which of these tensors have no range. Throws Error(invalid_argument), which names some of both sides, where they are
/// more than half: the ranges are then of another model. `file` is where they are from.
std::vector<std::string> tensors_without_range(const Calibration& calibration, const std::vector<std::string>& tensors,
                                               const std::string& file);

}  // namespace camshaft
