// What follows the sum of a contraction, for kernels on a GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/device/contract_parameters.h"
#include "compile/region/epilogue_view.h"

namespace camshaft::cuda {

/// Of static shared memory, more than what finish_text() makes takes.
constexpr int64_t most_epilogue_shared_bytes = 4096;

/// What follows the sum of a contraction (see view_epilogue()); nullopt for types or numbers of operands that kernels
/// do not take. Layouts are those of device/contract_columns.cuh.
std::optional<EpilogueView> device_epilogue(const RegionView& region, const ContractView& view, int32_t bias);

/// `struct Finish`, which device/contract.cuh and its like call with 8 sums of a row. `aligned`: the result and all
/// operands but those of one element have 8 consecutive and aligned columns wherever 8 begin. That of a view with a
/// norm, or that gives moments, has device/row_norm.cuh in it, which says what is to be defined before.
std::string finish_text(const EpilogueView& view, bool aligned);

/// Whether finish_text() makes the steps of bytes from an approximation: see TacticOffer::moves_steps.
bool moves_steps_of(const EpilogueView& view);

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
