// Iteration over N-dimensional strided operands: dropping and merging dims, and walking them a row at a time.
// Shared by the kernels that take arbitrary strides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace camshaft::cpu {

/// Dims of a strided operand: as many as a model's tensors may have axes (ir/limits.h), since any permutation of
/// them may leave none to merge.
constexpr int most_strided_dims = 64;

/// Dims shared by several operands, with each operand's strides in elements (0 = broadcast).
struct StridedSpace {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;  ///< [operand][dim]

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t count() const {
    int64_t product = 1;
    for (int64_t dim : dims) product *= dim;
    return product;
  }

  /// Drops dims of size 1 and merges neighbours that every operand steps through as if they were one.
  void coalesce() {
    std::vector<int64_t> merged;
    std::vector<std::vector<int64_t>> merged_strides(strides.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == 1) continue;
      bool joins = !merged.empty();
      for (size_t k = 0; k < strides.size() && joins; ++k) joins = merged_strides[k].back() == strides[k][d] * dims[d];
      if (joins) {
        merged.back() *= dims[d];
        for (size_t k = 0; k < strides.size(); ++k) merged_strides[k].back() = strides[k][d];
      } else {
        merged.push_back(dims[d]);
        for (size_t k = 0; k < strides.size(); ++k) merged_strides[k].push_back(strides[k][d]);
      }
    }
    dims = std::move(merged);
    strides = std::move(merged_strides);
  }

  /// Orders the dims so that |stride| of one operand falls from the first to the last.
  void sort_by(size_t operand) {
    std::vector<size_t> order(dims.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return std::abs(strides[operand][x]) > std::abs(strides[operand][y]); });
    StridedSpace sorted = *this;
    for (size_t d = 0; d < order.size(); ++d) {
      sorted.dims[d] = dims[order[d]];
      for (size_t k = 0; k < strides.size(); ++k) sorted.strides[k][d] = strides[k][order[d]];
    }
    *this = std::move(sorted);
  }
};

/// Strides of a dense row-major tensor.
inline std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = step;
    step *= dims[d];
  }
  return strides;
}

}  // namespace camshaft::cpu
