// Random tensors. They are functions of their seed: the same numbers each time a graph runs, on every machine.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

enum class Distribution : uint8_t { uniform, normal };

/// (like?) -> numbers of [low, high) = [a, b), or with mean a and standard deviation b. The shape is `shape`, or that
/// of `like` when it is given. dtype: any float of 16 bits or more.
struct RandomTensor {
  static constexpr std::string_view name = "random";
  static constexpr Traits traits = opaque_traits;
  Distribution distribution = Distribution::uniform;
  DType dtype = DType::f32;
  Shape shape;
  double a = 0;
  double b = 1;
  int64_t seed = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("distribution", self.distribution);
    visit("dtype", self.dtype);
    visit("shape", self.shape);
    visit("a", self.a);
    visit("b", self.b);
    visit("seed", self.seed);
  }
  bool operator==(const RandomTensor&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x[batch, classes]) -> `samples` class numbers a row, drawn with probabilities proportional to eˣ. dtype i32 or i64.
struct Multinomial {
  static constexpr std::string_view name = "multinomial";
  static constexpr Traits traits = opaque_traits;
  int64_t samples = 1;
  DType dtype = DType::i32;
  int64_t seed = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("samples", self.samples);
    visit("dtype", self.dtype);
    visit("seed", self.seed);
  }
  bool operator==(const Multinomial&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::Distribution> {
  static constexpr std::string_view values[] = {"uniform", "normal"};
};
}  // namespace camshaft
