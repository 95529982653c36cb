// A contraction region taken apart: the contraction itself, and what follows it.
#pragma once

#include <optional>

#include "compile/backend.h"
#include "compile/scalar_lowering.h"

namespace camshaft {

/// A plain contraction node, or a contract region whose body starts with one. Indices are of the region's inputs.
struct ContractView {
  const Node* anchor = nullptr;
  /// Region input of each anchor input; -1 for omitted ones.
  std::vector<int32_t> anchor_inputs;
  TensorType result;  ///< of the contraction, before the epilogue

  /// The epilogue, if any. Program input k is the contraction's result when epilogue_loads[k] is -1, else that input of
  /// the region.
  std::optional<ScalarProgram> epilogue;
  std::vector<int32_t> epilogue_loads;
};

/// nullopt when the node is not a contraction, or its epilogue is more than pointwise with one output.
std::optional<ContractView> view_contract(const RegionView& region);

}  // namespace camshaft
