// Caches of keys and values in blocks, which sequences of any length share: what a decoder keeps from step to step.
//
// Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace camshaft::ops {

/// (cache[blocks, block size, ...], rows[count, ...], slots[count]) -> the cache, with row i at slots[i], counted over
/// the positions of all blocks. A row whose slot is negative is left out; of two at one slot the later one stays.
struct PagedStore {
  static constexpr std::string_view name = "paged_store";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  enum Input : size_t { in_cache, in_rows, in_slots };
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const PagedStore&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (cache[blocks, block size, heads, size], scales[blocks, block size, heads] f32, rows[count, heads, size],
/// slots[count]) -> both caches, as PagedStore writes them, of rows in steps of a scale that each head's has: its
/// largest magnitude, or `least` where that is less, over the largest number of the cache, which is i8 (127) or f8e4m3
/// (448). Quotients are rounded to f32, then half to even. An infinity or a NaN makes its head's scale one.
struct PagedQuantize {
  static constexpr std::string_view name = "paged_quantize";
  static constexpr Traits traits = opaque_traits;
  enum Input : size_t { in_cache, in_scales, in_rows, in_slots };
  /// The smallest magnitude that the largest one of a row counts as.
  static constexpr float least = 0x1p-100F;
  /// Of i8 or f8e4m3.
  static constexpr float highest(DType cache) { return cache == DType::i8 ? 127.0F : 448.0F; }
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const PagedQuantize&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (query[tokens, heads·size], keys[blocks, block size, key heads, size], values[blocks, block size, key heads, value
/// size], starts[sequences + 1], past[sequences], table[sequences, width], sink[heads]?, key scales[blocks, block size,
/// key heads]?, value scales[likewise]?, relative bias[heads, 2·reach + 1] f32?) -> [tokens, heads·value size].
///
/// Row t of the query is a token of sequence s where starts[s] <= t < starts[s + 1], at position past[s] + t -
/// starts[s]. It sees the keys at positions 0 … of its sequence up to its own (all that the sequence has, unless
/// `causal`), `window` of them at most. Position p lies in block table[s][p / block size]. The sink is the score of one
/// more key, which has no value. Tokens of no sequence give 0. Keys and values are floats or i8, each row times its
/// scale where there are scales. The relative bias has in column reach + d what is added to the score of a key that
/// lies d positions behind the token (in front of it: −d), before the cap; keys beyond the reach have that of its end
/// (Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", 2020, whose
/// buckets are resolved here). Without `causal` the past may be negative: a sequence has fewer keys than tokens then.
struct PagedAttention {
  static constexpr std::string_view name = "paged_attention";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 1,  // caches are what the caller has
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  enum Input : size_t {
    in_query,
    in_keys,
    in_values,
    in_starts,
    in_past,
    in_table,
    in_sink,
    in_key_scales,
    in_value_scales,
    in_relative_bias
  };
  int64_t heads = 1;  ///< the key heads divide them: neighbours share a key
  double scale = 1;
  double softcap = 0;  ///< scores become softcap·tanh(score/softcap); 0: they stay
  int64_t window = 0;  ///< so many keys at most, the token's own the last; 0: all
  bool causal = true;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("heads", self.heads);
    visit("scale", self.scale);
    visit("softcap", self.softcap);
    visit("window", self.window);
    visit("causal", self.causal);
  }
  bool operator==(const PagedAttention&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

/// Where the keys and values of a step lie.
struct PagedSequences {
  const int32_t* starts = nullptr;  ///< [sequences + 1]
  const int32_t* past = nullptr;    ///< [sequences]
  const int32_t* table = nullptr;   ///< [sequences, width]
  int64_t sequences = 0, width = 0;
  int64_t tokens = 0;  ///< rows of the query
  int64_t blocks = 0, block_size = 0;
  bool causal = true;

  int64_t queries(int64_t s) const { return int64_t{starts[s + 1]} - starts[s]; }
  /// Positions that the sequence has in the cache.
  int64_t length(int64_t s) const { return past[s] + queries(s); }
  /// The row of the cache, of all blocks' positions, that has a position.
  int64_t slot(int64_t s, int64_t position) const {
    return table[s * width + position / block_size] * block_size + position % block_size;
  }
  /// Keys [first, second) that the token at `position` sees.
  std::pair<int64_t, int64_t> seen(const PagedAttention& op, int64_t s, int64_t position) const;
};

/// Throws Error(invalid_argument) unless every position that a token can see lies in a block of the cache: what the
/// tables say is data, of anybody's.
void check_sequences(const PagedSequences& sequences);

}  // namespace camshaft::ops
