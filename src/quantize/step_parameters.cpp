#include "quantize/step_parameters.h"

#include <algorithm>
#include <cmath>

namespace camshaft {

std::optional<StepParameters> steps_of(const TensorRange& range) {
  const double min = std::min(range.min, 0.F), max = std::max(range.max, 0.F);
  const auto scale = static_cast<float>((max - min) / 255);
  if (!std::isnormal(scale)) return std::nullopt;
  return StepParameters{scale, static_cast<uint8_t>(std::clamp(std::nearbyint(-min / scale), 0.0, 255.0))};
}

}  // namespace camshaft
