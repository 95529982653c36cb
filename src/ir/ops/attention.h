// Scaled dot-product attention over operands that lie anywhere in their tensors.
#pragma once

#include "ir/graph.h"
#include "ir/ops/contract.h"

namespace camshaft::ops {

/// (query, key, value, masks...) -> softmax_k(masks(softcap(scale · query · keyᵀ))) · value.
///
/// The operator runs over axes, and reads and writes its tensors, which are dense, through strides: so that heads which
/// lie side by side in the rows of one projection are used where they are, and the result needs no transpose either.
///
///   result[o, q, v] = Σ_k softmax_k(score[o, q, k]) · value[o, k, v]
///   score[o, q, k] = scale · Σ_d query[o, q, d] · key[o, k, d], which becomes softcap · tanh(score / softcap) where
///   there
///     is a softcap, and is then changed by each mask in order:
///     a float one is added; a bool one keeps the score where it is true and puts `masked` in its place where not.
///
/// o, q and k each stand for any number of axes (batch and heads; the rows and columns of a window). An access lists
/// an offset, then the stride of each axis it has, in elements: 0 repeats.
struct Attention {
  static constexpr std::string_view name = "attention";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 3,  // behind them are masks, whose numbers may be beyond f16's
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 3};
  enum Input : size_t { in_query, in_key, in_value, first_mask };
  Shape outer;                 ///< sizes of the axes o
  Shape queries;               ///< sizes of the axes q
  Shape keys;                  ///< sizes of the axes k
  int64_t size = 1;            ///< of the axis d, at least 1
  int64_t value_size = 1;      ///< of the axis v, at least 1
  Shape query;                 ///< access by o, q, d
  Shape key;                   ///< access by o, k, d
  Shape value;                 ///< access by o, k, v
  Shape result;                ///< access by o, q, v; meets every element of the result once
  Shape masks;                 ///< for each mask an access by o, q, k, one behind the other
  std::vector<double> masked;  ///< for each mask; of float ones it means nothing
  double scale = 1;
  double softcap = 0;                  ///< positive; 0: scores are not capped
  bool zero_undefined = false;         ///< rows whose softmax is NaN (all keys masked) have probabilities of 0
  Shape shape;                         ///< of the result
  Rounding rounding = Rounding::none;  ///< that queries, keys, values and probabilities allow
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("outer", self.outer);
    visit("queries", self.queries);
    visit("keys", self.keys);
    visit("size", self.size);
    visit("value_size", self.value_size);
    visit("query", self.query);
    visit("key", self.key);
    visit("value", self.value);
    visit("result", self.result);
    visit("masks", self.masks);
    visit("masked", self.masked);
    visit("scale", self.scale);
    visit("softcap", self.softcap);
    visit("zero_undefined", self.zero_undefined);
    visit("shape", self.shape);
    visit("rounding", self.rounding);
  }
  bool operator==(const Attention&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

/// An access for concrete sizes: element (o, r, c) is at outer[o] + rows[r] + c · column.
struct AttentionAccess {
  Dims outer;  ///< the offset is in here
  Dims rows;   ///< query axes or key axes; of masks: query axes
  int64_t column = 0;
  Dims columns;  ///< of masks: the key axes, instead of `column`
};

/// An attention whose symbols are bound, with every access inside its tensor.
struct BoundAttention {
  int64_t outer = 0, queries = 0, keys = 0;  ///< elements of the axes together
  AttentionAccess query, key, value, result;
  std::vector<AttentionAccess> masks;
};

/// `inputs` are the operands' dims, `output` the result's. Throws Error(invalid_argument) when an access leaves its
/// tensor, or the result's does not meet each element once.
BoundAttention bind_attention(const Attention& op, const std::vector<Dims>& inputs, const Dims& output,
                              const SymbolBindings& symbols);

}  // namespace camshaft::ops
