// The text of the kernels that update caches in blocks.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

struct PagedUpdateForm {
  DType rows = DType::f16, tables = DType::f16, cache = DType::f16;
  bool interleaved = false;
};

/// Its kernels are update_one and, but for interleaved pairs, update_chunks, which takes paged_update_chunk elements at
/// once from aligned memory.
std::string paged_update_text(const PagedUpdateForm& form);

inline constexpr int paged_update_chunk = 8;
inline constexpr unsigned paged_update_threads = 256;

}  // namespace camshaft::cuda
