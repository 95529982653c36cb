// Kernels for weights of few bits as CUDA C++ text.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// A kernel for few rows.
struct WeightOnlyForm {
  DType x = DType::f16;  ///< f16, bf16 or f32: the latter two from compute capability 8.0 on
  DType scale = DType::f32;
  int bits = 4;
  int group = 1;           ///< matrices of a chunk (16 of k each) that share a scale: a divisor of 16 / bits
  bool dense = false;      ///< each of these groups has one of its own
  bool one_block = false;  ///< all of a column share it
  bool has_zeros = false;  ///< zero points are one for each block and column, else one for all
  int tiles = 1;           ///< of 8 rows of X, or of f32 of their three parts
  int warps = 8, depth = 4;

  static constexpr int columns = 16;
  int parts() const { return x == DType::f32 ? 3 : 1; }
  int matrices() const { return 16 / bits; }
  int chunk() const { return 16 * matrices(); }
  int threads() const { return 32 * warps; }
  /// That a multiprocessor's registers hold: what is under way in many warps is what keeps memory busy.
  int least_blocks() const {
    const int most_threads = tiles > 1 || x != DType::f16 ? 512 : has_zeros ? 768 : 1024;
    return most_threads > threads() ? most_threads / threads() : 1;
  }
  /// Rows of X that a block can take.
  int most_rows() const { return tiles * 8 / parts(); }
  /// Of shared memory, where rows lie `slab` chunks at a time.
  int shared_bytes(int slab, int rows) const;
};

/// The kernel "weight_only", whose parameter is WeightOnlyParameters. `finish`: see finish_text(); `rows`: see
/// rows_text(), empty where they lie in memory.
std::string weight_only_text(const WeightOnlyForm& form, const std::string& finish, const std::string& rows = {});

/// Zero points of an ExpandForm.
enum class ExpandZeros : uint8_t { one, bytes, floats };

/// A kernel that makes floats of weights.
struct ExpandForm {
  DType to = DType::f16, scale = DType::f32;
  int bits = 4;
  ExpandZeros zeros = ExpandZeros::one;

  static constexpr int threads = 256;
};

/// The kernel "expand", whose parameters are ExpandParameters and the number of chunks of all columns.
std::string expand_text(const ExpandForm& form);

}  // namespace camshaft::cuda
