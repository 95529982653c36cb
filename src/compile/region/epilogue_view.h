// What follows a contraction, for kernels of any backend.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "compile/region/contract_view.h"

namespace camshaft {

/// The contraction's own bias and the region's epilogue as one program over an element of the result.
struct EpilogueView {
  /// How an operand is laid over the result, whatever the sizes. The last two are found from the moments of the rows,
  /// which are the region's input.
  enum class Layout : uint8_t {
    one,         ///< one element
    columns,     ///< one element a column, the same in every row
    dense,       ///< one element each
    general,     ///< anything else that broadcasts
    row_mean,    ///< see ContractView::norm
    row_factor,  ///< the same
  };

  ScalarProgram program;       ///< its first instruction loads input 0: the sum, in f32, or i32 of integers
  std::vector<int32_t> loads;  ///< region inputs of the program's inputs 1, 2, …
  std::vector<DType> types;    ///< of those
  std::vector<Layout> layouts;
  std::vector<bool> constant;  ///< of those too: nobody writes them while a model runs
  std::vector<double> most;    ///< the largest magnitude of constants of f32; infinity of other operands
  DType result = DType::f32;
  std::optional<ops::RowNorm> norm = std::nullopt;              ///< of row_mean and row_factor
  std::optional<ops::RowMoments> gives_moments = std::nullopt;  ///< of the result, as the region's output 1

  /// Whether it looks at region input `i`, which may be the contraction's weights too.
  bool reads(size_t i) const { return std::find(loads.begin(), loads.end(), static_cast<int32_t>(i)) != loads.end(); }
};

/// How `operand` is laid over `result`.
EpilogueView::Layout layout_over(const Shape& operand, const Shape& result);

/// `bias`: the region input that is added to the sum before the region's epilogue, or -1.
EpilogueView view_epilogue(const RegionView& region, const ContractView& view, int32_t bias);

}  // namespace camshaft
