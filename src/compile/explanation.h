// Why a layer is as it is.
#pragma once

#include <string>
#include <vector>

#include "compile/tune/tuning.h"

namespace camshaft {

/// Kept in the engine for `camshaft inspect --explain`; nothing depends on it.
struct LayerExplanation {
  std::vector<TacticTrial> tried;
  std::vector<std::string> notes;  ///< why it was not fused with its neighbours
  bool operator==(const LayerExplanation&) const = default;
};

}  // namespace camshaft
