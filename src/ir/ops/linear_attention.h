// Linear attention: a matrix of state that every step updates and reads.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// ONNX's LinearAttention on packed heads: (query[b, t, heads·k], key[b, t, key_heads·k], value[b, t, key_heads·v],
/// state[b, key_heads, k, v]?, decay[b, t, key_heads·k or key_heads]?, beta[b, t, key_heads or 1]?) ->
/// y[b, t, heads·v], state. Each step decays the state by exp(decay) when `gated`, adds key ⊗ value (when `delta`:
/// key ⊗ beta·(value - stateᵀ·key)), and reads y = scale · stateᵀ·query. The state is kept in double.
struct LinearAttention {
  static constexpr std::string_view name = "linear_attention";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  enum Input : size_t { in_query, in_key, in_value, in_state, in_decay, in_beta };
  static constexpr const char* input_names[] = {"the query",      "the key",   "the value",
                                                "the past state", "the decay", "beta"};
  int64_t heads = 1;
  int64_t key_heads = 1;  ///< divides `heads`: neighbours share a state
  bool gated = false;
  bool delta = false;
  double scale = 1;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("heads", self.heads);
    visit("key_heads", self.key_heads);
    visit("gated", self.gated);
    visit("delta", self.delta);
    visit("scale", self.scale);
  }
  bool operator==(const LinearAttention&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

/// Throws Error(invalid_argument) for numbers of heads that no tensors have.
void check_fields(const LinearAttention& op);

}  // namespace camshaft::ops
