// Writes to positions that are data: ONNX's ScatterND and ScatterElements, and GatherND, which reads from such.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

enum class ScatterCombine : uint8_t { assign, add, mul, max, min };

/// Where slices lie that indices of `sizes.size()` numbers name: in each of `batches` tensors of the same size, a slice
/// has `inner` elements. There are `count` indices, as many in each batch.
struct IndexedSlices {
  std::vector<int64_t> sizes;
  int64_t batches = 1, inner = 1, count = 0;
  int64_t slices() const;  ///< of one batch
};

/// The slices of x that indices[..., depth] name behind `batch_axes` axes that both have.
IndexedSlices indexed_slices(const std::vector<int64_t>& x, const std::vector<int64_t>& indices, size_t batch_axes);

/// What is written into: a tensor, or one element that all of it is.
struct ScatterBase {
  const void* data = nullptr;
  bool is_element = false;
};

/// out = base with slices replaced by, or combined with, updates[count, inner]; of equal indices the later one is
/// applied later. `out` may be the tensor. One batch. Throws Error(invalid_argument) naming an index out of range. All
/// element types of 8 bits and more when assigning, else those of with_type.h.
void scatter_slices(ThreadPool& pool, const IndexedSlices& at, ScatterCombine combine, DType dtype,
                    const ScatterBase& base, const void* indices, DType index_type, const void* updates, void* out);

/// out[count, inner] = the named slices, of elements of `width` bytes. Throws as scatter_slices.
void gather_slices(ThreadPool& pool, const IndexedSlices& at, int64_t width, const void* x, const void* indices,
                   DType index_type, void* out);

/// ONNX's ScatterElements at fixed shapes; `out` may be the base's tensor.
class ScatterElements {
 public:
  /// `axis` in [0, rank); `counts`: dims of indices and updates, at most those of x but on the axis.
  ScatterElements(DType dtype, ScatterCombine combine, const std::vector<int64_t>& dims,
                  const std::vector<int64_t>& counts, int64_t axis);
  void run(ThreadPool& pool, const ScatterBase& base, const void* indices, DType index_type, const void* updates,
           void* out) const;

 private:
  template <class T, class Index, class Apply>
  void apply(ThreadPool& pool, const Index* indices, const T* updates, T* out, Apply apply) const;

  DType dtype_;
  ScatterCombine combine_;
  int64_t elements_ = 1, size_ = 1, step_ = 1, axis_ = 0;  // of x: elements, size and stride of the axis
  int64_t outer_ = 1, length_ = 1, inner_ = 1;             // of the indices
  std::vector<int64_t> outer_offsets_, inner_offsets_;     // in x
};

}  // namespace camshaft::cpu
