// Products with weights that stay as narrow as the model has them, while what they are multiplied with is a float.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x[..., k], steps, scale, zero?) -> [..., n] of x's type: the matrix product of x and (steps - zero)·scale.
///
/// x is f32, f16 or bf16; with a `rounded_block`, which f32 alone has, it counts as RoundBlocks of so many elements
/// makes it. The scale is f32 or f16. The steps are one matrix [k, n], or [n, k] with `transposed`, of an
/// integer type of 2, 4 or 8 bits. Each `block` of them along k has a scale of its own (the last block may be cut off):
/// scale has the steps' sizes with that many blocks in the place of k. zero is one number or has the scale's sizes, and
/// is of the steps' type or f32; without it the zero point is 0.
struct WeightOnlyMatMul {
  static constexpr std::string_view name = "weight_only_matmul";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 1,  // scales keep the precision that they have
                                 .widening = Widening::none,
                                 .products = Products::floats,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t block = 1;
  bool transposed = false;
  int64_t rounded_block = 0;  ///< 0: x is not rounded
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("block", self.block);
    visit("transposed", self.transposed);
    visit("rounded_block", self.rounded_block);
  }
  bool operator==(const WeightOnlyMatMul&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

/// (x[..., m]) -> [..., m·bits of x/bits]: the same bytes read as elements of another integer type of at most 8 bits,
/// those in a byte's low bits first. The last axis must be whole bytes in both.
struct ReadBytesAs {
  static constexpr std::string_view name = "read_bytes_as";
  static constexpr Traits traits = opaque_traits;
  DType to = DType::u4;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("to", self.to);
  }
  bool operator==(const ReadBytesAs&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// Whether steps of that type stay narrow: integers of 2, 4 and 8 bits.
bool is_narrow_step(DType dtype);

}  // namespace camshaft::ops
