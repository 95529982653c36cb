#include "ir/ops/row_moments.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

[[noreturn]] void refuse(std::string_view op, const TensorType& type) {
  throw Error(ErrorCode::invalid_model, fmt::format("{} does not take {}", op, to_string(type)));
}

}  // namespace

std::vector<Inferred> RowMoments::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  if (!is_floating(x.dtype) || x.shape.empty() || width < 1) refuse(name, x);
  Shape shape = x.shape;
  if (shape.back().is_constant() && shape.back().value() % width != 0) refuse(name, x);
  shape.back() = floor_div(shape.back(), Dim(width));
  shape.emplace_back(2);
  return {{{DType::f32, std::move(shape)}}};
}

std::vector<Inferred> RowNorm::infer(const InferContext& context) const {
  const TensorType& moments = context.type(0);
  if (moments.dtype != DType::f32 || moments.shape.size() < 2 || width < 1 ||
      provably_different(moments.shape.back(), Dim(2)))
    refuse(name, moments);
  Shape shape(moments.shape.begin(), moments.shape.end() - 1);
  shape.back() = Dim(1);
  const Inferred factor{{DType::f32, std::move(shape)}};
  return {factor, factor};
}

}  // namespace camshaft::ops
