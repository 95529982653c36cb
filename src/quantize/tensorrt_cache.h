// The text of TensorRT's calibration caches.
#pragma once

#include <string>
#include <string_view>

#include "quantize/calibration.h"

namespace camshaft {

/// Whether a text begins like one.
bool begins_like_tensorrt_cache(std::string_view text);

/// A first line "TRT-8601-EntropyCalibration2" (the version and the calibrator; any are taken), and then a line a
/// tensor, "name: 3c010a14": the bits of the f32 scale in hexadecimal digits, whose 127-fold is the largest magnitude.
/// Names may have spaces and colons. Throws Error(invalid_argument) that names `file` and the line.
Calibration parse_tensorrt_cache(std::string_view text, const std::string& file);
/// As of TensorRT 8.6.1, of ranges that are symmetric around 0 and hold the given ones. Throws Error(invalid_argument)
/// for names that are empty or have line ends.
std::string tensorrt_cache_text(const Calibration& calibration);

}  // namespace camshaft
