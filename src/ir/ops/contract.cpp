// Matrix multiplication; convolutions are in convolution.cpp.
#include "ir/ops/contract.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/broadcast.h"

namespace camshaft::ops {

std::vector<Inferred> MatMul::infer(const InferContext& context) const {
  if (context.rank(0) < 2 || context.rank(1) < 2)
    throw Error(ErrorCode::invalid_model,
                fmt::format("matmul takes matrices, got ranks {} and {}", context.rank(0), context.rank(1)));
  const bool rounded = takes_rounded(rounding, context.dtype(0), context.dtype(1));
  if ((context.dtype(0) != context.dtype(1) && !rounded) ||
      !(is_floating(context.dtype(0)) || is_integer(context.dtype(0))) || bit_width(context.dtype(0)) < 8)
    throw Error(ErrorCode::invalid_model, fmt::format("matmul takes two operands of one numeric dtype, got {} and {}",
                                                      to_string(context.dtype(0)), to_string(context.dtype(1))));
  Shape a = context.shape(0), b = context.shape(1);
  if (transpose_a) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (transpose_b) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (provably_different(a.back(), b[b.size() - 2]))
    throw Error(ErrorCode::invalid_model,
                fmt::format("matmul sums over sizes that differ: {} and {}", a.back().str(), b[b.size() - 2].str()));
  Shape shape = broadcast_shapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  return {{{context.dtype(1), std::move(shape)}}};
}

}  // namespace camshaft::ops
