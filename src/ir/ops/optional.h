// Operators over values that may be missing.
#pragma once

#include <string>

#include "ir/graph.h"

namespace camshaft::ops {

/// (value?) -> an optional with the value, or an empty one of the type `element` (as parse_element_type() reads it).
struct MakeOptional {
  static constexpr std::string_view name = "optional";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  std::string element;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("element", self.element);
  }
  bool operator==(const MakeOptional&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (optional) -> its value; an empty one is an error when it runs. `rank` as of SequenceAt.
struct OptionalGetElement {
  static constexpr std::string_view name = "optional_get_element";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  int64_t rank = -1;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("rank", self.rank);
  }
  bool operator==(const OptionalGetElement&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (optional) -> bool[]: whether it has a value.
struct OptionalHasElement {
  static constexpr std::string_view name = "optional_has_element";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const OptionalHasElement&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
