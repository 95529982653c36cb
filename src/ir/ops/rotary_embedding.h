// Rotary position embeddings of rows that lie anywhere in their tensor.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x, cosine, sine) -> result: rows of x, of which the first `rotated` elements are turned in pairs (a, b):
///
///   result[a] = x[a] · cosine[a] - x[b] · sine[a]
///   result[b] = x[b] · cosine[b] + x[a] · sine[b]
///
/// Pair i is elements i and i + rotated/2 (halves), or 2i and 2i + 1 where they are `interleaved`. What is behind the
/// rotated elements stays as it is. The result is dense, its rows are its last axis; they are made in the order of
/// `axes`, along which the operands, dense tensors too, are read through strides: so that heads which lie side by side
/// in the rows of a projection are used where they are, and tables that all heads share are not repeated.
///
/// An access lists an offset, then the stride of each axis, in elements: 0 repeats. Elements of a row of x are
/// neighbours. An access to a table goes on with the strides from a pair's first angle to its second (0: it has one for
/// both) and from pair to pair: these are 1, or 1 and 2.
struct RotaryEmbedding {
  static constexpr std::string_view name = "rotary_embedding";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 1,  // behind it are tables
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::yes,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 1};
  enum Input : size_t { in_x, in_cosine, in_sine, input_count };
  bool interleaved = false;
  int64_t rotated = 0;  ///< even, at most the width of a row
  /// Tables broadcast to the rows, and are refused where running shows that they are longer; otherwise the rows may
  /// need a part of them.
  bool whole_tables = false;
  Shape axes;    ///< sizes of the axes, whose product is the number of rows
  Shape x;       ///< access by axes
  Shape cosine;  ///< access by axes and angles
  Shape sine;    ///< the same
  Shape shape;   ///< of the result
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("interleaved", self.interleaved);
    visit("rotated", self.rotated);
    visit("whole_tables", self.whole_tables);
    visit("axes", self.axes);
    visit("x", self.x);
    visit("cosine", self.cosine);
    visit("sine", self.sine);
    visit("shape", self.shape);
  }
  bool operator==(const RotaryEmbedding&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// The embedding of a dense x by tables that broadcast to it, and have one angle for each pair.
RotaryEmbedding dense_rotary_embedding(const Shape& x, const Shape& cosine, const Shape& sine, int64_t rotated,
                                       bool interleaved);

/// An access for concrete sizes.
struct RotaryAccess {
  int64_t offset = 0;
  Dims strides;                  ///< one an axis
  int64_t second = 0, pair = 1;  ///< of tables: from a pair's first angle to its second, and from pair to pair
};

/// A rotary embedding whose symbols are bound, with every access inside its tensor.
struct BoundRotaryEmbedding {
  Dims axes;
  int64_t rows = 0, width = 0;
  RotaryAccess x, cosine, sine;
};

/// `inputs` are the operands' dims, `output` the result's. Throws Error(invalid_argument) when an access leaves its
/// tensor or, of a whole table, does not reach its end, or the rows are not those of the result.
BoundRotaryEmbedding bind_rotary_embedding(const RotaryEmbedding& op, const std::vector<Dims>& inputs,
                                           const Dims& output, const SymbolBindings& symbols);

}  // namespace camshaft::ops
