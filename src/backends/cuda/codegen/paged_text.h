// The kernels of operators over caches in blocks as CUDA C++ text.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// The kernels store_rows_1 to store_rows_16 of device/paged_store.cuh, by the bytes that are moved at once.
std::string paged_store_text();
constexpr unsigned paged_store_threads = 128;

/// What the text of an attention depends on.
struct PagedForm {
  DType query = DType::f32, keys = DType::f32, values = DType::f32;  ///< f32, f16 or bf16; the result's is the query's
  int head_size = 1, value_size = 1;                                 ///< at most most_head_size
  bool matrix_instructions = false;                                  ///< of f16 and bf16, all three the same
  bool capped = false;                                               ///< scores are
};

/// One kernel: the rows and keys of a tile, the threads of a block and its dynamic shared memory.
struct PagedTileSize {
  std::string kernel;
  int rows = 0, keys = 0;
  unsigned threads = 0, shared_bytes = 0;
};
/// Of the kernels "attend_wide", for many rows of a sequence, and "attend_narrow"; without matrix instructions the
/// same.
struct PagedTiles {
  PagedTileSize wide, narrow;
};
PagedTiles paged_tiles(const PagedForm& form);

/// Those, with the parameters (PagedParameters, query, keys, values, starts, past, table, sink, result, partial,
/// Complaint), and "merge" with the same, with paged_merge_threads threads: a warp for each token's head.
std::string paged_attention_text(const PagedForm& form);
constexpr unsigned paged_merge_threads = 128;

}  // namespace camshaft::cuda
