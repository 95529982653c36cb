// The k best elements of a short line of 16 bits and more: each one's place is how many are better. Internal to
// top_k.h.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// The longest line for which that pays: 100 elements take 0.5 us, and by counting digits (narrow_top_k.h) 1.2.
constexpr int64_t most_ranked = 160;
/// Of 32 and 64 bits, whose k best are found first, lines are ranked that are longer. 100 of 400 f32 took 1.9 us by
/// digits (radix_top_k.h), whose tables are larger than the line.
constexpr int64_t most_ranked_words = 1024, most_ranked_best = 256;
inline bool can_rank_words(int64_t count, int64_t k) {
  return count <= most_ranked || (count <= most_ranked_words && k <= most_ranked_best);
}

/// order[i], i < k: where the i-th best of line[0 … count-1] is; of equal elements the lower index comes first.
/// 1 <= k <= count <= most_ranked; of words can_rank_words().
void rank_top_k(const int16_t* line, int64_t count, int64_t k, bool largest, uint32_t* order);
void rank_top_k(const uint16_t* line, int64_t count, int64_t k, bool largest, uint32_t* order);
/// By digits (radix_top_k.h) 50 of 100 elements take 1 us.
void rank_top_k(const float* line, int64_t count, int64_t k, bool largest, uint32_t* order);
void rank_top_k(const int32_t* line, int64_t count, int64_t k, bool largest, uint32_t* order);
void rank_top_k(const uint32_t* line, int64_t count, int64_t k, bool largest, uint32_t* order);
void rank_top_k(const double* line, int64_t count, int64_t k, bool largest, uint32_t* order);
void rank_top_k(const int64_t* line, int64_t count, int64_t k, bool largest, uint32_t* order);
void rank_top_k(const uint64_t* line, int64_t count, int64_t k, bool largest, uint32_t* order);

}  // namespace camshaft::cpu
