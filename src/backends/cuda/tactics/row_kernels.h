// What softmax and the normalisations share: rows in contiguous runs, and the kernels for rows of every length.
#pragma once

#include <initializer_list>
#include <span>

#include "backends/cuda/codegen/row_text.h"
#include "backends/cuda/device/row_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/row_launch.h"

namespace camshaft::cuda {

/// Dense rows. Throws Error(unsupported) when they have more than 2^31 elements together.
RowParameters row_parameters(int64_t count, int64_t length);

struct RowKernels {
  std::shared_ptr<const Device> device;   // outlives the functions
  Function held_one[2], held[2], any[2];  ///< [vector]
  int vector_elements = 4, chunks[2] = {};

  RowKernels(const Workshop& workshop, const Module& module, const RowText& text);
};

/// Which kernel takes rows, with which launch.
class RowForm {
 public:
  /// `vector`: with chunks of RowKernels::vector_elements.
  RowForm(const RowKernels& kernels, RowParameters rows, bool vector);
  /// Whether chunks of `elements` lie within the runs of such rows, and within their parameters.
  static bool can_be_vector(const RowParameters& rows, int elements);

  /// `arguments`: addresses of the parameters, of which the first is replaced.
  void launch(const Stream& stream, std::span<void*> arguments) const;

 private:
  const Function* function_;
  mutable RowParameters rows_;
  LaunchSize size_;
};

/// The type of a norm's operand: the input, the scale or the bias; the input's where it is omitted.
DType norm_type(const RegionView& region, size_t i);
/// Whether these operands are constants, or omitted.
bool has_constants(const RegionView& region, std::initializer_list<int32_t> inputs);
/// Whether kernels have all three.
bool has_norm_types(const RegionView& region);

}  // namespace camshaft::cuda
