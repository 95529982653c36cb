// Random tensors, and dropout in training mode. They depend on the seed alone: the attribute, or one of the node's own.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/hash.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/random.h"
#include "onnx/converters.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// One of 2^31 finite numbers of f32.
float number_from(uint64_t hash) {
  constexpr uint32_t all_but_the_largest_exponents = 0xbfffffff;
  return std::bit_cast<float>(static_cast<uint32_t>(hash) & all_but_the_largest_exponents);
}

// All seeds are numbers of f32, as ONNX's attributes are, so that a model that is written draws the same numbers. Those
// of Dropout are integers. Without the attribute, nodes draw different numbers, but the same in each build.
int64_t seed_of(ConvertContext& c) {
  const AttributeProto* seed = c.node().find_attribute("seed");
  double number = 0;
  if (!seed) {
    number = number_from(hash64("seed of " + (c.node().outputs.empty() ? "" : c.node().outputs[0])));
  } else if (seed->type == AttributeType::int_) {
    const auto near = static_cast<float>(seed->i);
    constexpr int64_t all_are_numbers = 1 << 24;
    number =
        seed->i >= -all_are_numbers && seed->i <= all_are_numbers ? near : number_from(hash64(std::to_string(seed->i)));
  } else {
    number = c.float_attribute("seed");
    if (std::isnan(number)) number = std::numeric_limits<double>::quiet_NaN();
  }
  return std::bit_cast<int64_t>(number);
}

DType dtype_of(ConvertContext& c, DType otherwise) {
  if (!c.has_attribute("dtype")) return otherwise;
  return dtype_from_onnx(static_cast<int32_t>(c.int_attribute("dtype")), "attribute 'dtype'");
}

ops::RandomTensor drawn(ConvertContext& c, ops::Distribution distribution, DType dtype) {
  ops::RandomTensor op{distribution, dtype, {}, 0, 1, seed_of(c)};
  const bool normal = distribution == ops::Distribution::normal;
  op.a = c.float_attribute(normal ? "mean" : "low", 0);
  op.b = c.float_attribute(normal ? "scale" : "high", 1);
  return op;
}

template <ops::Distribution distribution>
Values random(ConvertContext& c) {
  ops::RandomTensor op = drawn(c, distribution, dtype_of(c, DType::f32));
  const auto shape = c.ints_attribute("shape");
  if (!shape) c.invalid("attribute 'shape' is missing");
  op.shape.assign(shape->begin(), shape->end());
  return c.result(std::move(op), {});
}

template <ops::Distribution distribution>
Values random_like(ConvertContext& c) {
  const ValueId x = c.input(0);
  const DType like = is_floating(c.dtype(x)) ? c.dtype(x) : DType::f32;
  return c.result(drawn(c, distribution, dtype_of(c, like)), {x});
}

// True with probability p, in the shape of `like`. Compared in double: 0 is never and 1 always true.
ValueId chances(ConvertContext& c, ValueId like, ValueId p) {
  const ops::RandomTensor op{ops::Distribution::uniform, DType::f64, {}, 0, 1, seed_of(c)};
  return c.add(F::less, {c.add(op, {like}), c.cast(p, DType::f64)});
}

Values bernoulli(ConvertContext& c) {
  const ValueId p = c.input(0);
  if (!is_floating(c.dtype(p))) c.invalid(fmt::format("the probabilities are {}", to_string(c.dtype(p))));
  return c.result(ops::Cast{dtype_of(c, c.dtype(p))}, {chances(c, p, p)});
}

Values multinomial(ConvertContext& c) {
  return c.result(ops::Multinomial{c.int_attribute("sample_size", 1), dtype_of(c, DType::i32), seed_of(c)},
                  {c.input(0)});
}

ValueId flag(ConvertContext& c, ValueId id, const char* what) {
  if (product(c.shape(id)).as_constant().value_or(1) != 1) c.invalid(fmt::format("{} must be one element", what));
  return c.reshape(id, {});
}

// Inference: the input as it is, and a mask that is all true. Training is an attribute's matter until operator set 6
// (is_test, which every exported model sets) and an input's since 12.
Values dropout(ConvertContext& c) {
  const ValueId x = c.input(0);
  const auto known = c.has(2) ? c.constant(c.input(2)) : nullptr;
  if (known && (known->size() != 1 || known->dtype() != DType::boolean)) {
    c.invalid(fmt::format("the training mode is {}{}; it must be one boolean", to_string(known->dtype()),
                          to_string(known->dims())));
  }
  const DType mask = c.opset() >= 10 ? DType::boolean : c.dtype(x);
  if (!c.has(2) || (known && known->to_ints()[0] == 0)) {
    if (!c.uses_output(1)) return {x};
    return {x, c.result_at(1, ops::Expand{c.shape(x)}, {c.scalar(mask, 1)})};
  }
  const ValueId ratio = c.has(1) ? flag(c, c.input(1), "the ratio") : c.scalar(DType::f32, 0.5);
  const ValueId one = c.scalar(DType::f64, 1);
  const ValueId share = c.add(F::sub, {one, c.cast(ratio, DType::f64)});
  ValueId kept = chances(c, x, share);
  ValueId scale = c.add(F::div, {one, share});
  if (!known) {
    const ValueId training = flag(c, c.input(2), "the training mode");
    kept = c.add(F::logical_or, {kept, c.add(F::logical_not, {training})});
    scale = c.add(F::select, {training, scale, one});
  }
  const ValueId scaled = c.add(F::mul, {x, c.cast(scale, c.dtype(x))});
  const ValueId y = c.result_at(0, ops::Pointwise{F::select}, {kept, scaled, c.scalar(c.dtype(x), 0)});
  return {y, c.cast(kept, mask)};
}

constexpr Converter random_table[] = {
    {"Bernoulli", bernoulli, 15},
    {"Dropout", dropout},
    {"Multinomial", multinomial},
    {"RandomNormal", random<ops::Distribution::normal>},
    {"RandomNormalLike", random_like<ops::Distribution::normal>},
    {"RandomUniform", random<ops::Distribution::uniform>},
    {"RandomUniformLike", random_like<ops::Distribution::uniform>},
};

}  // namespace

std::span<const Converter> random_converters() {
  return random_table;
}

}  // namespace camshaft::onnx
