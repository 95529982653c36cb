// How reductions are laid out over a GPU: which thread reads what of the tensors that are reduced.
#pragma once

#include <vector>

#include "backends/cuda/device/reduce_parameters.h"
#include "backends/cuda/driver/module.h"
#include "backends/cuda/tactics/axes.h"

namespace camshaft::cuda {

/// A nest of axes that several operands walk.
struct Walk {
  Dims sizes;
  std::vector<Dims> strides;  ///< [operand][axis]

  explicit Walk(size_t operands) : strides(operands) {}
  /// An axis outside of all others; merged with the next one, where `merge` and all operands allow it.
  void put_outside(int64_t size, const Dims& steps, bool merge);
  /// Takes the innermost axis out; its strides.
  Dims take_inside();
};

/// What is reduced, as its sources lie: the axes that stay and those that go.
struct WalkedAxes {
  Walk kept, reduced;
  bool ends_kept = false;  ///< the innermost axis stays

  WalkedAxes(const Dims& dims, const std::vector<int64_t>& axes, const std::vector<Dims>& strides);
  const Walk& innermost() const { return ends_kept ? kept : reduced; }
  /// Whether every source is read in chunks of `elements`, or has one element for all of a chunk.
  bool has_chunks(int elements) const;
};

/// A launch with chunks of one size.
struct ReduceForm {
  ReduceShape shape;
  std::vector<std::byte> parameter;  ///< ReduceParameters of so many operands
  LaunchSize size;
  bool columns = false;
  unsigned splits = 1;

  /// `elements` a chunk, of `element_bytes` each.
  ReduceForm(const WalkedAxes& axes, int64_t outputs, int64_t count, int elements, int element_bytes,
             int multiprocessors);

 private:
  void along(int64_t rows, int64_t length, int multiprocessors);
  void down(int64_t groups, int64_t chunks, int64_t length, int64_t chunk_bytes, int multiprocessors);
  void split(int64_t length, int64_t threads, int multiprocessors);
};

}  // namespace camshaft::cuda
