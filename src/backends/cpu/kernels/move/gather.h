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

  /// `index_type`: i64 or i32. Throws Error(invalid_argument) that names the first index outside [-size, size), before
  /// anything is written.
  void run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const;
};

/// out[p] = in[p with its coordinate along `axis` replaced by indices[p]], p over `index_dims`; dense tensors.
struct GatherElements {
  int64_t width = 4;
  std::vector<int64_t> dims, index_dims;
  int axis = 0;

  /// Errors as Gather::run.
  void run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const;
};

}  // namespace camshaft::cpu
