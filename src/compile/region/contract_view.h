// A contraction region taken apart: the contraction itself, and what follows it.
#pragma once

#include <optional>

#include "compile/backend.h"
#include "compile/region/scalar_lowering.h"
#include "ir/ops/row_moments.h"

namespace camshaft {

/// A plain contraction node, or a contract region whose body starts with one. Indices are of the region's inputs.
struct ContractView {
  const Node* anchor = nullptr;
  /// Region input of each anchor input; -1 for omitted ones.
  std::vector<int32_t> anchor_inputs;
  TensorType result;  ///< of the contraction, before the epilogue

  /// The epilogue, if any. Program input k is the contraction's result when epilogue_loads[k] is -1, else that input of
  /// the region, or one of the two below.
  std::optional<ScalarProgram> epilogue;
  std::vector<int32_t> epilogue_loads;
  static constexpr int32_t row_mean = -2, row_factor = -3;

  /// Of epilogues that norm rows: the first and second output of `norm` are the loads row_mean and row_factor.
  std::optional<ops::RowNorm> norm = std::nullopt;
  int32_t moments = -1;                                         ///< its input
  std::optional<ops::RowMoments> gives_moments = std::nullopt;  ///< of output 0, as output 1
};

/// nullopt when the node is not a contraction, or its epilogue is more than pointwise with one output. Only where
/// `with_norms` is said it may also take one row_norm and give the result's row_moments.
std::optional<ContractView> view_contract(const RegionView& region, bool with_norms = false);

/// The same of ops::IntegerMatMul and ops::IntegerConv, whose results are i32 before the epilogue, and of
/// ops::Float8MatMul and ops::Float8Conv.
std::optional<ContractView> view_byte_contract(const RegionView& region);

}  // namespace camshaft
