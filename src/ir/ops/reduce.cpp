#include "ir/ops/reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/ops/content.h"

namespace camshaft::ops {

namespace {

void check_axes(std::string_view op, const std::vector<int64_t>& axes, int rank) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= rank || (i > 0 && axes[i] <= axes[i - 1]))
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{}: axes must be sorted and within rank {}, got {}", op, rank, axes[i]));
}

// np.prod(shape) and the like, where models compute sizes.
Content fold(ReduceKind kind, DType dtype, const Content& elements) {
  if (!elements || elements->empty() || (dtype != DType::i64 && dtype != DType::i32)) return std::nullopt;
  Dim total = (*elements)[0];
  for (size_t i = 1; i < elements->size(); ++i) {
    const Dim& d = (*elements)[i];
    switch (kind) {
      case ReduceKind::sum:
        total = total + d;
        break;
      case ReduceKind::prod:
        total = total * d;
        break;
      case ReduceKind::max:
        total = max(total, d);
        break;
      case ReduceKind::min:
        total = min(total, d);
        break;
      default:
        return std::nullopt;
    }
  }
  if (kind != ReduceKind::sum && kind != ReduceKind::prod && kind != ReduceKind::max && kind != ReduceKind::min)
    return std::nullopt;
  return std::vector<Dim>{total};
}

}  // namespace

std::vector<Inferred> Reduce::infer(const InferContext& context) const {
  check_axes(name, axes, context.rank(0));
  const DType dtype = context.dtype(0);
  if (dtype == DType::string || (dtype == DType::boolean && kind != ReduceKind::max && kind != ReduceKind::min))
    throw Error(ErrorCode::invalid_model, fmt::format("reduce takes numbers, got {}", to_string(dtype)));
  Inferred out{{dtype, {}}};
  for (int i = 0; i < context.rank(0); ++i) {
    if (std::count(axes.begin(), axes.end(), i) == 0) {
      out.type.shape.push_back(context.shape(0)[static_cast<size_t>(i)]);
    } else if (keep_dims) {
      out.type.shape.emplace_back(1);
    }
  }
  if (context.rank(0) == 1 && axes.size() == 1) out.content = fold(kind, dtype, context.content(0));
  return {std::move(out)};
}

std::vector<Inferred> ArgReduce::infer(const InferContext& context) const {
  check_axes(name, {axis}, context.rank(0));
  if (context.dtype(0) == DType::string) throw Error(ErrorCode::invalid_model, "arg_reduce takes numbers, got string");
  Shape shape = context.shape(0);
  const auto at = shape.begin() + axis;
  if (at->as_constant() == 0) throw Error(ErrorCode::invalid_model, "arg_reduce along an axis of size 0");
  if (keep_dims) {
    *at = Dim(1);
  } else {
    shape.erase(at);
  }
  return {{{DType::i64, std::move(shape)}}};
}

}  // namespace camshaft::ops
