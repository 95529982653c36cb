// What follows the sum of a contraction, for kernels on a GPU.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/device/contract_parameters.h"
#include "compile/region/contract_view.h"

namespace camshaft::cuda {

/// The contraction's own bias and the region's epilogue as one program over an element of the result.
struct EpilogueView {
  /// How an operand is laid over the result, whatever the sizes: see Layout in device/contract_columns.cuh. The last
  /// two are found from the moments of the rows, which are the region's input.
  enum class Layout : uint8_t { one, columns, dense, general, row_mean, row_factor };

  ScalarProgram program;       ///< input 0 is the sum, in f32
  std::vector<int32_t> loads;  ///< region inputs of the program's inputs 1, 2, …
  std::vector<DType> types;    ///< of those
  std::vector<Layout> layouts;
  std::vector<bool> constant;  ///< of those too: nobody writes them while a model runs
  DType result = DType::f32;
  std::optional<ops::RowNorm> norm = std::nullopt;              ///< of row_mean and row_factor
  std::optional<ops::RowMoments> gives_moments = std::nullopt;  ///< of the result, as the region's output 1

  /// Whether it looks at region input `i`, which may be the contraction's weights too.
  bool reads(size_t i) const { return std::find(loads.begin(), loads.end(), static_cast<int32_t>(i)) != loads.end(); }
};

/// `bias`: the region input that has one element for each column, or -1. nullopt for types or numbers of operands that
/// kernels do not take.
std::optional<EpilogueView> view_epilogue(const RegionView& region, const ContractView& view, int32_t bias);

/// `struct Finish`, which device/contract.cuh and its like call with 8 sums of a row. `aligned`: the result and all
/// operands but those of one element have 8 consecutive and aligned columns wherever 8 begin. That of a view with a
/// norm, or that gives moments, has device/row_norm.cuh in it, which says what is to be defined before.
std::string finish_text(const EpilogueView& view, bool aligned);

/// Whether the result may be written over region input `i`: every element of it is read just before the same one of the
/// result is written, by the epilogue alone.
bool can_overwrite(const RegionView& region, const ContractView& contract, const EpilogueView& view, int32_t i);

/// Where rows of a result of shape `out` (all axes but the last) and its columns lie in an operand.
struct OperandMap {
  RowMap rows = {};
  int64_t column_stride = 0;
  int64_t row_stride = 0;      ///< of one that lies as the result does
  bool can_be_vector = false;  ///< but for the address of its first element
};

/// Throws Error(invalid_argument) when the operand does not broadcast, Error(unsupported) when more than 6 axes cannot
/// be merged.
OperandMap map_operand(const OperandShape& operand, const Dims& out);

/// The operands of `view` for one set of shapes; their data is set before each launch.
class EpilogueOperands {
 public:
  EpilogueOperands(const EpilogueView& view, const KernelShapes& shapes);
  /// Whether 8 columns of each, but of those of one element a row, are consecutive and aligned, if the first are.
  bool can_be_vector() const;
  /// Whether they are.
  bool bind(const LaunchArguments& arguments, EpilogueOperand* operands) const;

 private:
  std::vector<int32_t> loads_;
  std::vector<EpilogueView::Layout> layouts_;
  bool gives_moments_;
  std::vector<OperandMap> maps_;
};

/// Whether 16-byte accesses from `pointer` on are aligned.
inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace camshaft::cuda
