// A few tiny operators, so that the tests of graphs do not depend on the real ones.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft::test_ops {

enum class Rounding : uint8_t { up, down, to_even };

/// Broadcasts its inputs: any number of one dtype.
struct Add {
  static constexpr std::string_view name = "add";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const Add&) const = default;
  std::vector<Inferred> infer(const InferContext& c) const {
    TensorType type = c.type(0);
    for (size_t i = 1; i < c.input_count(); ++i) {
      if (!c.has(i)) continue;
      if (c.dtype(i) != type.dtype || c.rank(i) != c.rank(0))
        throw Error(ErrorCode::invalid_argument, "the inputs differ in dtype or rank");
      for (size_t axis = 0; axis < type.shape.size(); ++axis)
        type.shape[axis] = broadcast(type.shape[axis], c.shape(i)[axis]);
    }
    return {{type}};
  }
  std::vector<Tensor> evaluate(const EvalContext& c) const { return {c.input(0)}; }
};

/// [m, k] and [k, n] to [m, n].
struct MatMul {
  static constexpr std::string_view name = "matmul";
  static constexpr Traits traits = opaque_traits;
  bool transpose_b = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("transpose_b", self.transpose_b);
  }
  bool operator==(const MatMul&) const = default;
  std::vector<Inferred> infer(const InferContext& c) const {
    const size_t k = transpose_b ? 1 : 0;
    if (c.rank(0) != 2 || c.rank(1) != 2) throw Error(ErrorCode::invalid_argument, "the inputs must have rank 2");
    if (!(c.shape(0)[1] == c.shape(1)[k])) throw Error(ErrorCode::invalid_argument, "the inner sizes differ");
    return {{{c.dtype(0), {c.shape(0)[0], c.shape(1)[1 - k]}}}};
  }
  std::vector<Tensor> evaluate(const EvalContext& c) const { return {c.input(0)}; }
};

/// Its shape as a tensor, with the elements known.
struct ShapeOf {
  static constexpr std::string_view name = "shape_of";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const ShapeOf&) const = default;
  std::vector<Inferred> infer(const InferContext& c) const { return {{{DType::i64, {Dim(c.rank(0))}}, c.shape(0)}}; }
  std::vector<Tensor> evaluate(const EvalContext& c) const { return {c.input(0)}; }
};

/// Three outputs: halves of the first axis, and as many elements as only running can tell.
struct Split {
  static constexpr std::string_view name = "split";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const Split&) const = default;
  std::vector<Inferred> infer(const InferContext& c) const {
    TensorType half = c.type(0), rest = c.type(0);
    half.shape[0] = floor_div(c.shape(0)[0], 2);
    rest.shape[0] = c.shape(0)[0] - half.shape[0];
    std::vector<Inferred> out = {{half}, {rest}};
    if (c.output_count() > 2) out.push_back({{DType::i64, {c.fresh(2, 0)}}});
    return out;
  }
  std::vector<Tensor> evaluate(const EvalContext& c) const { return {c.input(0)}; }
};

/// A field of each type; its output is its input.
struct Everything {
  static constexpr std::string_view name = "everything";
  static constexpr Traits traits = opaque_traits;
  int64_t integer = 0;
  uint8_t small = 0;
  float real = 0;
  double wide = 0;
  bool flag = false;
  std::string text;
  DType dtype = DType::f32;
  Rounding rounding = Rounding::up;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;
  Dim dim;
  Shape shape;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("integer", self.integer);
    visit("small", self.small);
    visit("real", self.real);
    visit("wide", self.wide);
    visit("flag", self.flag);
    visit("text", self.text);
    visit("dtype", self.dtype);
    visit("rounding", self.rounding);
    visit("integers", self.integers);
    visit("reals", self.reals);
    visit("texts", self.texts);
    visit("dim", self.dim);
    visit("shape", self.shape);
  }
  bool operator==(const Everything&) const = default;
  std::vector<Inferred> infer(const InferContext& c) const { return {{c.type(0)}}; }
  std::vector<Tensor> evaluate(const EvalContext& c) const { return {c.input(0)}; }
};

/// Runs its body; the types are the body's.
struct Call {
  static constexpr std::string_view name = "call";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const Call&) const = default;
  std::vector<Inferred> infer(const InferContext& c) const {
    std::vector<Inferred> out;
    for (const ValueId id : c.body(0).outputs) out.push_back({c.body(0).type(id)});
    return out;
  }
  std::vector<Tensor> evaluate(const EvalContext& c) const { return {c.input(0)}; }
};

inline OpRegistry registry() {
  OpRegistry r;
  r.add<Add>();
  r.add<MatMul>();
  r.add<ShapeOf>();
  r.add<Split>();
  r.add<Everything>();
  r.add<Call>();
  return r;
}

}  // namespace camshaft::test_ops

template <>
struct camshaft::EnumNames<camshaft::test_ops::Rounding> {
  static constexpr std::string_view values[] = {"up", "down", "to even"};
};
