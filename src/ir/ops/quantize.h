// Linear quantisation: numbers as steps of a scale, and back.
//
// The two are operators, not the arithmetic that they stand for, so that passes see which tensors are steps, of which
// scale, and constant weights stay as narrow as the model has them. What no pass takes, expand_quantization
// (optimize/precision/) writes as pointwise operators.
//
// A scale or zero point belongs to the whole tensor (one number), to one index of `axis` ([size of that axis]), or to
// a block of `block` elements along `axis`: it then has as many axes as x, with the number of blocks along `axis`, the
// last of which may be cut off. Along any axis it may have size 1 or that of x.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x, scale, zero?) -> `dtype`, of x's shape: saturate(round(x / scale) + zero). The quotient is rounded to
/// `precision`, then, half to even, to an integer, unless `dtype` is a floating-point type; the sum is one of f32.
/// Integers saturate and NaN becomes 0; floats round and saturate, or become infinite or NaN with `saturate` off, as
/// Cast does it. zero is of `dtype`; scale is any floating-point or integer type, and so is x.
struct Quantize {
  static constexpr std::string_view name = "quantize";
  static constexpr Traits traits{.kind = OpKind::pointwise,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  DType dtype = DType::u8;
  int64_t axis = 0;   ///< not negative; means nothing beside parameters of one number
  int64_t block = 0;  ///< elements along `axis` that share a parameter; 0: parameters are not by blocks
  DType precision = DType::f32;
  bool saturate = true;  ///< of 8-bit floats
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("dtype", self.dtype);
    visit("axis", self.axis);
    visit("block", self.block);
    visit("precision", self.precision);
    visit("saturate", self.saturate);
  }
  bool operator==(const Quantize&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, scale, zero?) -> `dtype`, of x's shape: (x - zero)·scale in f32, rounded to `dtype`. The difference is one of
/// i32 for x of i32, of f32 for all others. zero has x's dtype, or is f32 beside all but i32. x is what Quantize makes,
/// i32, or numbers of f32 that were looked up in a table of steps which are no integers (NF4).
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  static constexpr Traits traits{.kind = OpKind::pointwise,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  DType dtype = DType::f32;
  int64_t axis = 0;
  int64_t block = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("dtype", self.dtype);
    visit("axis", self.axis);
    visit("block", self.block);
  }
  bool operator==(const Dequantize&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// Whether numbers are quantised to that type: integers of at most 16 bits and floats of at most 8 but bare exponents.
bool is_quantized_type(DType dtype);

/// The smallest and largest step of an integer type of at most 16 bits.
struct StepRange {
  double lowest, highest;
};
StepRange step_range(DType dtype);

}  // namespace camshaft::ops
