// Kernels for products of few rows as CUDA C++ text.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

struct FewRowsForm {
  DType dtype = DType::f16;  ///< of X and the weights: f32, f16 or bf16
  int rows = 1;              ///< that a block has: 1, 2, 4 or 8
  int warps = 8, shares = 4;
  int cluster = 1;     ///< blocks with neighbouring columns, of which the first one finishes all
  bool whole = false;  ///< all warps have four columns, and rows of the weights whole pieces
  bool computes_rows = false;

  static constexpr int columns_of_warp = 4, depth = 2, most_rows = 8;
  int piece() const { return 512 * 8 / bit_width(dtype); }  ///< along k, of a warp
  int columns() const { return warps / shares * columns_of_warp; }
  int threads() const { return 32 * warps; }
  /// That a multiprocessor's registers hold.
  int least_blocks() const;
  /// Of shared memory, where rows lie `slab` pieces at a time.
  int shared_bytes(int slab) const;
};

/// The kernel "few_rows", whose parameter is FewRowsParameters. `finish`: see finish_text(); `computed_rows`: see
/// rows_text(), where the form computes them.
std::string few_rows_text(const FewRowsForm& form, const std::string& finish, const std::string& computed_rows = {});

}  // namespace camshaft::cuda
