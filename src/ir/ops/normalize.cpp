// Softmax and the normalisations.
#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/reduce.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

void check_float(std::string_view op, DType dtype) {
  if (!is_floating(dtype))
    throw Error(ErrorCode::invalid_model, fmt::format("{} takes floating-point numbers, got {}", op, to_string(dtype)));
}

void check_normalised_axis(std::string_view op, int64_t axis, int rank) {
  if (axis < 0 || axis >= rank)
    throw Error(ErrorCode::invalid_model, fmt::format("{}: axis {} is outside rank {}", op, axis, rank));
}

void check_parameter(std::string_view op, std::string_view what, const TensorType& type, const Shape& wanted) {
  bool fits = is_floating(type.dtype) && type.shape.size() == wanted.size();
  for (size_t i = 0; fits && i < wanted.size(); ++i) fits = !provably_different(type.shape[i], wanted[i]);
  if (!fits)
    throw Error(ErrorCode::invalid_model, fmt::format("{}: {} must have the shape {}, got {}", op, what,
                                                      to_string(TensorType{type.dtype, wanted}), to_string(type)));
}

}  // namespace

std::vector<Inferred> Softmax::infer(const InferContext& context) const {
  check_float(name, context.dtype(0));
  check_normalised_axis(name, axis, context.rank(0));
  return {{context.type(0)}};
}

std::vector<Inferred> LayerNorm::infer(const InferContext& context) const {
  check_float(name, context.dtype(0));
  check_normalised_axis(name, axis, context.rank(0));
  if (clamped && !root_mean_square) fail_rule("a layer norm that takes the mean cannot be clamped");
  const Shape normalised(context.shape(0).begin() + axis, context.shape(0).end());
  if (context.has(1)) check_parameter(name, "the scale", context.type(1), normalised);
  if (context.has(2)) check_parameter(name, "the bias", context.type(2), normalised);
  return {{context.type(0)}};
}

std::vector<Inferred> GroupNorm::infer(const InferContext& context) const {
  check_float(name, context.dtype(0));
  if (context.rank(0) < 2)
    throw Error(ErrorCode::invalid_model, fmt::format("group_norm takes [n, c, ...], got rank {}", context.rank(0)));
  const Dim channels = context.shape(0)[channels_last ? context.shape(0).size() - 1 : 1];
  if (groups < 1 || (channels.is_constant() && channels.value() % groups != 0))
    throw Error(ErrorCode::invalid_model,
                fmt::format("group_norm: {} groups do not divide {} channels", groups, channels.str()));
  if (context.has(1)) check_parameter(name, "the scale", context.type(1), {channels});
  if (context.has(2)) check_parameter(name, "the bias", context.type(2), {channels});
  return {{context.type(0)}};
}

}  // namespace camshaft::ops
