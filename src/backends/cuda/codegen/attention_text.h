// The kernels of attention as CUDA C++ text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compile/region/scalar_program.h"
#include "ir/ops/attention.h"

namespace camshaft::cuda {

constexpr int most_head_size = 256;

/// What makes bytes of the result, once it is rounded to the form's type.
struct AttentionSteps {
  DType dtype = DType::u8;  ///< of 8 bits
  ScalarProgram program;    ///< its only load is the result
};

/// What the text depends on.
struct AttentionForm {
  DType dtype = DType::f32;          ///< f32, f16 or bf16
  int head_size = 1;                 ///< of queries and keys; at most most_head_size
  int value_size = 1;                ///< at most most_head_size
  std::vector<DType> masks = {};     ///< dtype, or boolean; at most most_attention_masks
  bool matrix_instructions = false;  ///< of f16 and bf16
  bool by_warpgroups = false;        ///< those of compute capability 9.0, where can_go_by_warpgroups()
  bool capped = false;               ///< scores are
  std::optional<AttentionSteps> steps = {};
};

/// Whether there is a text for the operator that every device has the shared memory for; of f32, f16 or bf16.
bool has_attention_text(const ops::Attention& op);

/// Whether 16-bit heads of these sizes lie as matrices of a warpgroup have to.
bool can_go_by_warpgroups(int head_size, int value_size);

/// One kernel: the queries and keys of a tile, the threads of a block and its dynamic shared memory.
struct AttentionTile {
  std::string kernel;
  int queries = 0, keys = 0;
  unsigned threads = 0, shared_bytes = 0;
  unsigned shared_bytes_of_one = 0;  ///< where a block goes through one tile of keys alone
};

/// Of the kernels "attention_wide", for many queries, and "attention_narrow", for few; by warpgroups also of
/// "attention_brief", for many queries of at most most_brief_keys keys that are more than a tile.
struct AttentionTiles {
  AttentionTile wide, narrow;
  std::optional<AttentionTile> brief = {};
};
/// Tiles of half as many keys leave room for one more block on a multiprocessor, which hides how long the few tiles of
/// a block wait for memory. On an H200, heads of 64: 11.4 us and not 12.4 for 128 keys; 30.5 and not 30.0 for 197, 55
/// and not 46 for 1,024.
constexpr int64_t most_brief_keys = 128;
AttentionTiles attention_tiles(const AttentionForm& form);

/// Those, with the parameters (Attention, query, key, value, result, partial, masks…) of device/attention.cuh, and
/// "merge" (Attention, splits, partial, result), with attention_merge_threads threads: a warp for each query.
std::string attention_text(const AttentionForm& form);

constexpr unsigned attention_merge_threads = 128;

}  // namespace camshaft::cuda
