// Operators that read, write or run along positions given as data.
#pragma once

#include "ir/graph.h"
#include "ir/ops/move.h"

namespace camshaft::ops {

/// (x, indices[..., q]) -> for each index the slice of x that its q numbers name, counted behind `batch_dims` leading
/// axes that both share. The last axis of the indices has a known size.
struct GatherND {
  static constexpr std::string_view name = "gather_nd";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::yes,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t batch_dims = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("batch_dims", self.batch_dims);
  }
  bool operator==(const GatherND&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, indices, updates) -> x with x[index[i][j]][j] replaced by, or combined with, updates[i][j] for axis 0, and
/// likewise for others. Repeated indices take effect in row-major order.
struct ScatterElements {
  static constexpr std::string_view name = "scatter_elements";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t axis = 0;
  ScatterKind kind = ScatterKind::assign;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("kind", self.kind);
  }
  bool operator==(const ScatterElements&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  bool selects() const { return ops::selects(kind); }
};

/// (cache, update, start?) -> the cache with the update written along `axis` (not 0) from start[b] on for each b of
/// axis 0, or from 0. `circular`: positions wrap around, else they must lie inside.
struct TensorScatter {
  static constexpr std::string_view name = "tensor_scatter";
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
  int64_t axis = 1;
  bool circular = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("circular", self.circular);
  }
  bool operator==(const TensorScatter&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, lengths[batch]) -> the first lengths[b] elements of each sequence reversed, the others as they are. Time is axis
/// 0 and batch axis 1, or the other way round when `batch_first`.
struct ReverseSequence {
  static constexpr std::string_view name = "reverse_sequence";
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
  bool batch_first = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("batch_first", self.batch_first);
  }
  bool operator==(const ReverseSequence&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

enum class CumulativeKind : uint8_t { sum, product };

/// (x, axis) -> sums or products of all elements up to each along an axis, which is an i64 or i32 scalar (may be
/// negative). `exclusive` leaves out the element itself, `reverse` starts at the end. Integers wrap.
struct Cumulative {
  static constexpr std::string_view name = "cumulative";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  CumulativeKind kind = CumulativeKind::sum;
  bool exclusive = false;
  bool reverse = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("kind", self.kind);
    visit("exclusive", self.exclusive);
    visit("reverse", self.reverse);
  }
  bool operator==(const Cumulative&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::CumulativeKind> {
  static constexpr std::string_view values[] = {"sum", "product"};
};
}  // namespace camshaft
