// Looking values up in tables: label encoders, one-hot encoders and vocabularies.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x, keys [k], sorted; one dtype: any integer, f32, f64 or string) -> i64 of x's shape: the position of each element
/// among the keys, k where there is none. NaN is equal to NaN and behind all numbers; -0 equals 0. With `must_find` an
/// element that is no key throws Error(invalid_argument) naming it. Keys out of order are not found, nothing worse.
struct FindKeys {
  static constexpr std::string_view name = "find_keys";
  bool must_find = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("must_find", self.must_find);
  }
  bool operator==(const FindKeys&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// The positions of `keys` (1-D, a dtype of FindKeys) in its order; of equal ones only the first given, or the last.
std::vector<int64_t> order_of_keys(const Tensor& keys, bool last_wins);

}  // namespace camshaft::ops
