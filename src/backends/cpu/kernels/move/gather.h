// Rows and elements at given indices, whatever the elements' type.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// out[o, k, :] = in[o, indices[k], :] for dense in [outer, size, inner] and out [outer, count, inner];
/// `inner_bytes` = inner × width. Negative indices count from the end.
struct Gather {
  int64_t outer = 1, size = 0, inner_bytes = 0, count = 0;

  /// `index_type`: i64 or i32. Throws Error(invalid_argument) that names the first index outside [-size, size); `out`
  /// may be written in part by then.
  void run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const;
  /// The same errors, for who reads the rows by itself.
  void check(const void* indices, DType index_type) const;

 private:
  template <class T, class Index>
  bool copy_runs(ThreadPool& pool, const char* in, const Index* indices, char* out) const;
};

/// out[p] = in[p with its coordinate along `axis` replaced by indices[p]], p over `index_dims`; dense tensors.
class GatherElements {
 public:
  /// `width`: bytes an element, 1, 2, 4 or 8. Sizes of the indices are at most those of `dims`, but on the axis.
  GatherElements(int64_t width, const std::vector<int64_t>& dims, const std::vector<int64_t>& index_dims, int axis);

  /// Errors as Gather::run.
  void run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const;

 private:
  template <class T, class Index>
  bool gather(const char* in, const Index* indices, int64_t begin, int64_t end, char* out) const;

  int64_t width_, size_;                 // bytes an element; of the axis
  int64_t step_ = 1;                     // an index along the axis counts so many elements of `in`
  int64_t row_ = 1;                      // indices that are taken in one loop
  bool stays_ = false;                   // a row's elements lie behind each other in `in`, before their indices count
  int64_t count_ = 1;                    // of all indices
  int64_t in_bytes_ = 0;                 // of all of `in`
  std::vector<int64_t> dims_, strides_;  // rows, and where they begin in `in`; the axis has the stride 0
};

}  // namespace camshaft::cpu
