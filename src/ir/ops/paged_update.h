// What a decoder's step does to its caches, in one operator.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace camshaft::ops {

/// (query[tokens, heads·size], key[tokens, key heads·size], value[tokens, key heads·value size], cosine[tokens,
/// rotated/2], sine[tokens, rotated/2], slots[tokens], keys[blocks, block size, key heads, size], values[blocks, block
/// size, key heads, value size]) -> (the query, keys, values): heads of queries and keys are turned as RotaryEmbedding
/// says; keys and values are converted to the types of their caches, and go to the slots as PagedStore says.
struct PagedUpdate {
  static constexpr std::string_view name = "paged_update";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 5,  // behind them are caches, which are the caller's
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::depends,
                                 .strided_operands = 0};
  enum Input : size_t { in_query, in_key, in_value, in_cosine, in_sine, in_slots, in_keys, in_values, input_count };
  enum Output : size_t { out_query, out_keys, out_values, output_count };
  int64_t heads = 1;  ///< of the query
  bool interleaved = false;
  int64_t rotated = 0;  ///< elements of a head, even: those behind them stay
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("heads", self.heads);
    visit("interleaved", self.interleaved);
    visit("rotated", self.rotated);
  }
  bool operator==(const PagedUpdate&) const = default;
  size_t sliced_operands(const std::vector<size_t>& /*ranks*/) const { return 3; }
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
