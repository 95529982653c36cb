// Attention whose keys and values lie in blocks of caches that sequences of any length share, on raw pointers.
//
// A unit of work is a block of a sequence's query rows for one key head, over all keys or a part of them. It goes over
// these in chunks with a running maximum and sum for each row, as attention.h does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

struct PagedAttentionArgs {
  // What is known before running.
  int64_t tokens = 0;  ///< rows of the query
  int64_t sequences = 0, width = 0;
  int64_t blocks = 0, block_size = 0;
  int64_t heads = 1, key_heads = 1;  ///< these divide the heads
  int64_t size = 0, value_size = 0;  ///< of a head
  float scale = 1;
  float softcap = 0;   ///< 0: none
  int64_t window = 0;  ///< keys that a token sees at most; 0: all
  bool causal = true;
  DType query_type = DType::f32;                         ///< and the result's: f32, f16 or bf16
  DType key_type = DType::f32, value_type = DType::f32;  ///< likewise, or i8 or f8e4m3
  bool has_key_scales = false, has_value_scales = false;
  int64_t reach = 0;  ///< of the relative bias

  // Data. The tables must name blocks of the cache for all that a sequence has (ops::check_sequences).
  const std::byte* query = nullptr;   ///< [tokens, heads, size]
  const std::byte* keys = nullptr;    ///< [blocks, block size, key heads, size]
  const std::byte* values = nullptr;  ///< [blocks, block size, key heads, value size]
  const float* key_scales = nullptr;  ///< [blocks, block size, key heads]: what a row's elements are times
  const float* value_scales = nullptr;
  const int32_t* starts = nullptr;       ///< [sequences + 1]
  const int32_t* past = nullptr;         ///< [sequences]
  const int32_t* table = nullptr;        ///< [sequences, width]
  const float* sink = nullptr;           ///< [heads]: the score of a key without a value; null: there is none
  const float* relative_bias = nullptr;  ///< [heads, 2·reach + 1] (ops::PagedAttention); null: there is none
  std::byte* result = nullptr;           ///< [tokens, heads, value size]; must not overlap the operands
};

/// Bytes of scratch memory for `threads` threads and fewer, 64-byte aligned. Depends on what is known before running.
int64_t paged_attention_workspace_bytes(const PagedAttentionArgs& args, int threads);
/// Runs on the threads of the pool that have something to do. A token's result has the same bits whatever their number
/// and the other tokens of the step are, of its own sequence and of others.
void paged_attention(const PagedAttentionArgs& args, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
