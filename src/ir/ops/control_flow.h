// Control flow: operators that run graphs of their own, as often as data says.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (condition, captures…) -> what the taken branch gives. bodies[0] runs when the condition (bool, one element) is
/// true, bodies[1] when not; both take all the captures. Sizes in which the branches differ are fresh symbols; results
/// of different dtypes are Error(invalid_model), of different ranks Error(unsupported).
struct If {
  static constexpr bool takes_containers = true;
  static constexpr std::string_view name = "if";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const If&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (condition, value) -> the value. Evaluating it throws Error(invalid_argument) with `message` when the condition
/// (bool, one element) is not `wanted`.
struct Check {
  static constexpr bool takes_containers = true;
  static constexpr std::string_view name = "check";
  static constexpr Traits traits = opaque_traits;
  bool wanted = true;
  std::string message;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("wanted", self.wanted);
    visit("message", self.message);
  }
  bool operator==(const Check&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// ONNX's Loop: (trip count?, condition?, carried…, captures…) -> carried…, collected…. bodies[0] is (iteration: i64,
/// condition: bool, both [] or [1], carried…, captures…) -> condition, carried…, collected…, and runs while the
/// condition holds and the count is not reached; without either it is without that limit. What the body collects is
/// stacked along a new first axis.
///
/// A carried size may change from one iteration to the next where the body's input has a symbol of its own for it: such
/// sizes, the number of iterations, and sizes that only the body knows, are fresh symbols outside.
struct Loop {
  static constexpr bool takes_containers = true;
  static constexpr std::string_view name = "loop";
  static constexpr Traits traits = opaque_traits;
  int64_t carried = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("carried", self.carried);
  }
  bool operator==(const Loop&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
