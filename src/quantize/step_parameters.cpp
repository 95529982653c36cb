#include "quantize/step_parameters.h"

#include <algorithm>
#include <cmath>

#include "quantize/quantize_constant.h"

namespace camshaft {

std::optional<StepParameters> steps_of(const TensorRange& range) {
  const double min = std::min(range.min, 0.F), max = std::max(range.max, 0.F);
  const auto scale = static_cast<float>((max - min) / 255);
  if (!std::isnormal(scale)) return std::nullopt;
  return StepParameters{scale, static_cast<uint8_t>(std::clamp(std::nearbyint(-min / scale), 0.0, 255.0))};
}

std::optional<StepParameters> float8_steps_of(const TensorRange& range) {
  const float scale = std::max(std::fabs(range.min), std::fabs(range.max)) / largest_float8;
  return std::isnormal(scale) ? std::optional(StepParameters{scale, 0}) : std::nullopt;
}

}  // namespace camshaft
