// Reductions over any set of axes, with pointwise programs before and behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/kernels/pointwise/pointwise.h"
#include "base/dtype.h"
#include "base/thread_pool.h"

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

struct ReduceOperands {
  const void* in = nullptr;             ///< the tensor, where it is not computed
  const void* const* before = nullptr;  ///< inputs of the program that computes it
  const void* const* behind = nullptr;  ///< inputs of the program behind; `out` itself where it reads the reduction
  void* out = nullptr;
  std::byte* workspace = nullptr;  ///< workspace_bytes()
};

/// Reduces a dense tensor to a dense tensor of the remaining dims (whether these keep dims of size 1 is the caller's
/// business). Built once a shape; `run` allocates nothing.
///
/// Types: f32 (vectorised; sums in blocks of f32 that are added in double), f64, and all integers of 8 bits and more
/// (sums wrap; the mean truncates). An empty reduction gives the identity: sum 0, prod 1, max -inf or the lowest
/// integer, min +inf or the highest; the mean of nothing is NaN (integers: 0). In which order elements are combined
/// depends on the shape alone, not on the threads.
class Reduce {
 public:
  /// `axes`: each in [0, rank), no repeats. Throws Error(unsupported) for other types, Error(internal) for a bad axis.
  Reduce(ReduceKind kind, DType dtype, const std::vector<int64_t>& dims, const std::vector<int>& axes);

  /// The tensor is not in memory: `before`, over its dims and with one output of its type, computes it tile by tile.
  void compute_from(Pointwise before);
  /// `behind`, over the result's dims and with one output of its type, is applied to it, in place.
  void go_on_with(Pointwise behind) { behind_ = std::move(behind); }

  int64_t outputs() const { return outputs_; }
  size_t workspace_bytes() const { return parts_ > 1 ? static_cast<size_t>(parts_ * outputs_) * sizeof(double) : 0; }

  void run(ThreadPool& pool, const ReduceOperands& operands) const;

 private:
  template <class T>
  struct Matrix;
  struct Item;

  void lay_out();
  Item item_at(int64_t item) const;
  template <class T>
  Matrix<T> fetch(const ReduceOperands& operands, T* tile, int64_t begin, int64_t rows, int64_t columns) const;
  template <class T, class P>
  void reduce_layers(const ReduceOperands& operands, T* tile, const Item& item, int64_t begin, int64_t end,
                     P* totals) const;
  template <class T, class P>
  void reduce_dense_columns(const T* x, int64_t rows, int64_t stride, int64_t columns, P* totals) const;
  template <class T, class P>
  void reduce_pieces(const ReduceOperands& operands, T* tile, const Item& item, int64_t begin, int64_t end,
                     P* totals) const;
  template <class T>
  void run_as(ThreadPool& pool, const ReduceOperands& operands) const;
  template <class T>
  void run_stacked(ThreadPool& pool, const ReduceOperands& operands) const;

  ReduceKind kind_;
  DType dtype_;
  std::optional<Pointwise> before_, behind_;
  // After merging neighbours: dims that stay and dims that go, each with strides of the input in elements. Where rows
  // are added to each other, `width_` consecutive elements are not among the dims that stay.
  std::vector<int64_t> kept_dims_, kept_strides_, reduced_dims_, reduced_strides_;
  int64_t outputs_ = 1, count_ = 1;  // elements of the output; elements that each of them reduces
  bool inner_reduced_ = false;       // the innermost dim goes: rows are summed; else rows are added to each other
  bool ahead_ = false;               // memory is asked for the next rows while these are added
  bool layered_ = false;             // short rows over each other: their columns are reduced first
  bool is_of_few_rows_ = false;      // rows that are combined with each other at once
  bool is_stacked_ = false;          // many small blocks, of which two axes apart go: the inner one first, of several
  int64_t width_ = 1;
  // An item is `batch_` neighbours of the innermost dim that stays, or `block_` of the `width_` columns of one. What
  // it reduces comes in pieces, each `step_` of the innermost dim that goes; `parts_` threads may share it.
  int64_t batch_ = 1, block_ = 1, blocks_ = 1, items_ = 0;
  int64_t step_ = 1, steps_ = 1, pieces_ = 1;
  int64_t parts_ = 1, pieces_per_part_ = 1;
};

}  // namespace camshaft::cpu
