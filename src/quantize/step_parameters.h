// The steps in which activations are stored.
#pragma once

#include <cstdint>
#include <optional>

#include "quantize/calibration.h"

namespace camshaft {

struct StepParameters {
  float scale;
  uint8_t zero;
};

/// Steps of u8 that reach from the smaller of min and 0 to the larger of max and 0, 0 being one of them; nullopt where
/// the range has no finite scale, or a subnormal one.
std::optional<StepParameters> steps_of(const TensorRange& range);
/// The same of f8e4m3, whose largest number the larger magnitude of the two becomes; zero is 0.
std::optional<StepParameters> float8_steps_of(const TensorRange& range);

}  // namespace camshaft
