// The kernels of operators over caches in blocks as CUDA C++ text.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// The kernels store_rows_1 to store_rows_16 of device/paged_store.cuh, by the bytes that are moved at once.
std::string paged_store_text();
constexpr unsigned paged_store_threads = 128;

/// The kernel quantize_rows of device/paged_quantize.cuh, of rows of f32, f16 or bf16 for a cache of i8 or f8e4m3.
std::string paged_quantize_text(DType rows, DType cache);

/// What the text of an attention depends on.
struct PagedForm {
  DType query = DType::f32;                      ///< f32, f16 or bf16, and the result's
  DType keys = DType::f32, values = DType::f32;  ///< likewise, or i8 or f8e4m3
  bool key_scales = false, value_scales = false;
  int head_size = 1, value_size = 1;  ///< at most most_head_size
  bool matrix_instructions = false;   ///< of f16 and bf16, with caches of the same type or of 8 bits
  bool capped = false;                ///< scores are
  bool biased = false;                ///< by distance
  bool tables_are_early = false;      ///< starts, past and table are there before the kernel before has ended
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

/// Those, with the parameters (PagedParameters, query, keys, values, starts, past, table, sink, key scales, value
/// scales, relative bias, result, partial, counters, Complaint).
std::string paged_attention_text(const PagedForm& form);

}  // namespace camshaft::cuda
