// Looking values up in tables: label encoders, one-hot encoders and vocabularies.
#pragma once

#include <string>

#include "ir/graph.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

/// (x, keys [k], sorted; one dtype: any integer, f32, f64 or string) -> i64 of x's shape: the position of each element
/// among the keys, k where there is none. NaN is equal to NaN and behind all numbers; -0 equals 0. With `must_find` an
/// element that is no key throws Error(invalid_argument) naming it. Keys out of order are not found, nothing worse.
struct FindKeys {
  static constexpr std::string_view name = "find_keys";
  static constexpr Traits traits = opaque_traits;
  bool must_find = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("must_find", self.must_find);
  }
  bool operator==(const FindKeys&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// Calls visit(T{}) with the type of keys of that dtype. Throws Error(invalid_argument) for one that FindKeys does not
/// take.
template <class Visit>
void visit_key(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::string:
      return visit(std::string());
    case DType::f32:
      return visit(float{});
    case DType::f64:
      return visit(double{});
    case DType::i64:
      return visit(int64_t{});
    case DType::u64:
      return visit(uint64_t{});
    case DType::i32:
      return visit(int32_t{});
    case DType::u32:
      return visit(uint32_t{});
    case DType::i16:
      return visit(int16_t{});
    case DType::u16:
      return visit(uint16_t{});
    case DType::i8:
      return visit(int8_t{});
    case DType::u8:
    case DType::boolean:
      return visit(uint8_t{});
    default:
      fail_rule("keys of {} cannot be looked up", to_string(dtype));
  }
}

}  // namespace camshaft::ops
