// Reductions over any set of axes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "camshaft/dtype.h"

namespace camshaft::cpu {

enum class ReduceKind : uint8_t {
  sum,
  mean,
  max,  ///< NaN if any is NaN
  min,  ///< likewise
  prod,
  sum_square,  ///< sum of x^2
  sum_abs,     ///< sum of |x|
};

/// Reduces a dense tensor to a dense tensor of the remaining dims (whether these keep dims of size 1 is the caller's
/// business). Built once a shape; `run` allocates nothing.
///
/// Types: f32 (vectorised; sums in blocks of f32 that are added in double), f64, and all integers of 8 bits and more
/// (sums wrap; the mean truncates). An empty reduction gives the identity: sum 0, prod 1, max -inf or the lowest
/// integer, min +inf or the highest; the mean of nothing is NaN (integers: 0).
class Reduce {
 public:
  /// `axes`: each in [0, rank), no repeats. Throws Error(unsupported) for other types, Error(internal) for a bad axis.
  Reduce(ReduceKind kind, DType dtype, const std::vector<int64_t>& dims, const std::vector<int>& axes);

  void run(ThreadPool& pool, const void* in, void* out) const;

 private:
  template <class T>
  void run_as(ThreadPool& pool, const T* in, T* out) const;

  ReduceKind kind_;
  DType dtype_;
  // After merging neighbours: dims that stay and dims that go, each with strides of the input in elements.
  std::vector<int64_t> kept_dims_, kept_strides_, reduced_dims_, reduced_strides_;
  int64_t outputs_ = 1, count_ = 1;  // elements of the output; elements that each of them reduces
  bool inner_reduced_ = false;       // the innermost dim goes: rows are summed; else rows are added to each other
};

}  // namespace camshaft::cpu
