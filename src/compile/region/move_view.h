// Operators that move elements, as copies with strides.
#pragma once

#include <cstdint>
#include <optional>

#include "compile/kernel.h"
#include "ir/ops/index_map.h"
#include "ir/ops/move.h"

namespace camshaft {

/// result[i…] = operand[start + Σ i · in]: transposes, slices with any step, expansions (stride 0). `out` is where the
/// element lies in the result, which may be a slice of wider rows. In elements.
struct StridedMove {
  Dims dims;  ///< of the result
  Dims in, out;
  int64_t start = 0;
};

/// Elements between neighbours along each axis, of a dense operand or a slice of wider rows.
Dims row_major(const OperandShape& operand);
/// Bytes of an element of 8 bits and more.
int64_t width_of(const OperandShape& operand);
/// Whether elements are 1, 2, 4 or 8 bytes that can be moved.
bool is_movable(DType dtype);

/// dims seen as [before, axis, after].
struct AxisSplit {
  int64_t outer = 1, axis = 1, inner = 1;
  AxisSplit(const Dims& dims, int64_t at) {
    for (size_t d = 0; d < dims.size(); ++d)
      (static_cast<int64_t>(d) < at ? outer : static_cast<int64_t>(d) == at ? axis : inner) *= dims[d];
  }
};

/// Each throws Error(invalid_argument) where the shapes do not fit together after all.
StridedMove transpose_move(const ops::Transpose& op, const KernelShapes& shapes);
StridedMove expand_move(const KernelShapes& shapes);
StridedMove slice_move(const ops::Slice& op, const KernelShapes& shapes);
/// The parts of a concatenation, of which each is moved whole: `start` is where it begins in the result.
std::vector<StridedMove> concat_moves(const ops::Concat& op, const KernelShapes& shapes);

/// An index map with strides in elements.
struct IndexedMove {
  ops::BoundIndexMap map;
  Dims in, out;  ///< strides of the operand's axes and of the result's
  /// The same as a move through strides, where no index leaves its axis.
  std::optional<StridedMove> strided() const;
};
IndexedMove indexed_move(const ops::IndexMap& op, const KernelShapes& shapes);

}  // namespace camshaft
