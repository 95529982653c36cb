// The kernels of operators over caches in blocks as CUDA C++ text.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"

namespace camshaft::cuda {

/// Of rows that are computed, and of caches that have them as they are.
constexpr bool is_computed_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

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

  /// Of an update of the caches before it.
  struct Update {
    DType angles = DType::f32;  ///< f32, f16 or bf16
    bool interleaved = false;
    int rotated = 0;  ///< elements of a head
  };
  Update update = {};
};

/// One kernel: the rows and keys of a tile, which its warps share out, and its shared memory.
struct PagedTileSize {
  int warps_q = 1, warps_k = 4, warp_keys = 8;  ///< without matrix instructions: 4 warps have all of the keys each
  int rows = 16, keys = 32;
  unsigned shared_bytes = 0;  ///< of a block without a cluster

  unsigned threads() const { return static_cast<unsigned>(32 * warps_q * warps_k); }
  /// What a block gets of its cluster of `parts` blocks.
  unsigned cluster_bytes(int value_size, int parts) const;
  /// More of what a block has, where its kernel updates the caches too.
  unsigned step_bytes(const PagedForm& form) const;
};
/// For many rows of a sequence; not without matrix instructions.
PagedTileSize wide_paged_tile(const PagedForm& form);
/// For few rows, as in decoding; the best guess first.
std::vector<PagedTileSize> narrow_paged_tiles(const PagedForm& form);

/// The kernel "paged_attention" of a tile, with the parameters (PagedParameters, query, keys, values, starts, past,
/// table, sink, key scales, value scales, relative bias, result, partial, counters, Complaint). Its grid is tiles ×
/// parts × heads of the keys.
std::string paged_attention_text(const PagedForm& form, const PagedTileSize& tile);

/// The kernel "paged_attention" of few tokens whose rows it stores into the caches, on tensor cores: with
/// PagedStepParameters behind the first parameter.
std::string paged_step_text(const PagedForm& form, const PagedTileSize& tile);

}  // namespace camshaft::cuda
