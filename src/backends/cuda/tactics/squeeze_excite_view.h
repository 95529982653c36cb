// Squeeze and excite, taken apart.
#pragma once

#include <optional>
#include <vector>

#include "backends/cuda/codegen/squeeze_excite_text.h"
#include "backends/cuda/driver/device.h"
#include "compile/backend.h"
#include "compile/constants/weight_rows.h"

namespace camshaft::cuda {

struct SqueezeExciteView {
  SqueezeExciteForm form;
  int64_t channels = 0, hidden = 0;
  // Inputs of the chain.
  int32_t image = -1, squeeze = -1, excite = -1;  ///< the last two: weights
  WeightRows squeeze_rows, excite_rows;
  std::vector<int32_t> operands;  ///< by their number in the kernels
  std::vector<int32_t> dense;     ///< those of the image's shape
};

/// Of a chain as passes/chain_squeeze_excite.h makes them; nullopt for others, and where types or operands are such as
/// the kernels do not take.
std::optional<SqueezeExciteView> view_squeeze_excite(const RegionView& region, const DeviceFacts& device);

}  // namespace camshaft::cuda
