// Products whose rows choose their matrix.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace camshaft::ops {

/// (x[rows, in], indices[rows], w[matrices, in, out]) -> [rows, out]: row i is x[i] · w[indices[i]], and zeros where
/// the index is none of the matrices'. The result has the type of x. Two of them are the low-rank updates of LoRA (Hu
/// et al., https://arxiv.org/abs/2106.09685) of rows with different adapters, as Punica computes them (Chen et al.,
/// https://arxiv.org/abs/2310.18547).
struct GatherMatMul {
  static constexpr std::string_view name = "gather_matmul";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 1,  // matrices are stored as the caller has them
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  enum Input : size_t { in_rows, in_indices, in_matrices, input_count };
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const GatherMatMul&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

}  // namespace camshaft::ops
