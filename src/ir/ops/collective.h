// What ranks do together: engines of one model that run at the same time, each with a part of it.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

enum class CollectiveKind : uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all };
enum class CollectiveReduction : uint8_t { sum, prod, min, max, avg };

/// (x) -> what all `ranks` make of the x that each brings, as MPI and NCCL have it:
/// - all_reduce: x's shape, elements of all ranks reduced, in the order of the ranks.
/// - all_gather: all x one behind the other along `axis`.
/// - reduce_scatter: of what all_reduce gives, the rank's part of `ranks` equal ones along `axis`.
/// - broadcast: the x of rank `root`.
/// - all_to_all: x is as many equal parts along `axis`, of which rank r gets the r-th of every rank's, one behind the
///   other.
///
/// All ranks bring one dtype and one shape. `sequence` tells those of a graph apart: equal ones are never merged, since
/// what looks equal on one rank may not be so on another, and ranks that are not at the same one say so.
struct Collective {
  static constexpr std::string_view name = "collective";
  static constexpr Traits traits{
      .kind = OpKind::other,
      .layout = Layout::fixed,
      .layout_operands = 0,
      .narrowed_operands = 1,
      .widening = Widening::none,
      .products = Products::none,
      .picks = Answer::no,
      .selects = Answer::no,
      .reads_slices = Answer::no,
      .strided_operands = 0,
  };
  CollectiveKind kind = CollectiveKind::all_gather;
  int64_t ranks = 1;
  CollectiveReduction reduction = CollectiveReduction::sum;
  int64_t axis = 0;
  int64_t root = 0;
  int64_t sequence = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("kind", self.kind);
    visit("ranks", self.ranks);
    visit("reduction", self.reduction);
    visit("axis", self.axis);
    visit("root", self.root);
    visit("sequence", self.sequence);
  }
  bool operator==(const Collective&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;

  bool has_axis() const { return kind != CollectiveKind::all_reduce && kind != CollectiveKind::broadcast; }
  bool reduces() const { return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter; }
};

/// For how many ranks a graph is; 0: it has no collectives. Throws Error(invalid_model) where they are for different
/// numbers.
int64_t ranks_of(const Graph& graph);

/// What ranks that do the same say alike: "collective 3: all_gather {…} of f32[2, 8]".
std::string described(const Collective& op, DType dtype, const Dims& dims);

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::CollectiveKind> {
  static constexpr std::string_view values[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                "all_to_all"};
};
template <>
struct EnumNames<ops::CollectiveReduction> {
  static constexpr std::string_view values[] = {"sum", "prod", "min", "max", "avg"};
};
}  // namespace camshaft
