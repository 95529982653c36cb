// Attention of f32: softmax(scale · query · keyᵀ, masked) · value, on raw pointers, one pass over the keys.
//
// Keys and values of a problem are packed once; blocks of queries go over blocks of keys with a running maximum and sum
// for each row (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022), so that scores stay in cache whatever the length.
#pragma once

#include <cstdint>

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// Element (o, r, c) is at data[outer[o] + rows[r] + c * column].
struct AttentionOperand {
  const float* data = nullptr;
  const int64_t* outer = nullptr;
  const int64_t* rows = nullptr;
  int64_t column = 1;
  int64_t row_step = 0;  ///< rows[i] is rows[0] + i * row_step; 0: not all are
};

/// Exactly one of the two pointers is set. The element of (o, q, k) is at outer[o] + rows[q] + columns[k].
struct AttentionMask {
  const float* added = nullptr;   ///< added to the score
  const uint8_t* kept = nullptr;  ///< 0: the score is replaced by `masked`
  float masked = 0;
  const int64_t* outer = nullptr;
  const int64_t* rows = nullptr;
  const int64_t* columns = nullptr;
  bool one_column = false;  ///< columns[k] is the same for all k
  bool neighbours = false;  ///< columns[k] is columns[0] + k
};

constexpr int64_t most_attention_masks = 8;

struct AttentionArgs {
  int64_t outer = 0;  ///< independent problems; those that share keys and values should be neighbours
  int64_t queries = 0, keys = 0;
  int64_t size = 0;        ///< of a query and a key
  int64_t value_size = 0;  ///< of a value and a result
  float scale = 1;
  float softcap = 0;            ///< scores become softcap · tanh(score / softcap); 0: they stay
  bool zero_undefined = false;  ///< rows whose softmax is NaN give 0
  /// Operands and probabilities, the largest of which is 1, are rounded to bf16, unless there are so few queries that
  /// keys are read where they are. Only where has_bf16_pairs() (bf16_pairs.h).
  bool rounds = false;
  AttentionOperand query, key, value;
  float* result = nullptr;               ///< must not overlap the operands
  AttentionOperand result_place;         ///< its `data` is not used
  const AttentionMask* masks = nullptr;  ///< applied in order
  int64_t mask_count = 0;                ///< at most most_attention_masks
};

/// Bytes of scratch memory for `threads` threads and fewer, 64-byte aligned. Depends on sizes, mask_count, rounds and
/// the thread count only.
int64_t attention_workspace_bytes(const AttentionArgs& args, int threads);
/// Runs on the threads of the pool that have something to do. Without keys the results are 0.
void attention(const AttentionArgs& args, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
