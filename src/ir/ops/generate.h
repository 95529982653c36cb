// Operators that make tensors out of sizes and scalars.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// () -> a tensor whose elements are dims: what is left of shape arithmetic where a model uses sizes as numbers.
/// dtype i64, i32 or bool; 1-D, or a scalar when `scalar` (one element).
struct DimsTensor {
  static constexpr std::string_view name = "dims";
  static constexpr Traits traits = opaque_traits;
  Shape elements;
  DType dtype = DType::i64;
  bool scalar = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("elements", self.elements);
    visit("dtype", self.dtype);
    visit("scalar", self.scalar);
  }
  bool operator==(const DimsTensor&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x) -> its dims from axis `start` up to but not including `end`, as an i64 vector. Its content is always known.
struct ShapeOf {
  static constexpr std::string_view name = "shape_of";
  static constexpr Traits traits = opaque_traits;
  int64_t start = 0;
  int64_t end = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("start", self.start);
    visit("end", self.end);
  }
  bool operator==(const ShapeOf&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (start, limit, delta), scalars of one dtype -> start, start+delta, … below limit. The count is an expression when
/// the contents of the inputs are known, else a fresh symbol.
struct Range {
  static constexpr std::string_view name = "range";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const Range&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// The number of elements of a Range of tensors of one number each. Throws Error(invalid_argument) for a delta of 0 and
/// for what no tensor can hold.
int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta);

}  // namespace camshaft::ops
