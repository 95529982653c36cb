#include "ir/ops/index.h"

#include <algorithm>

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> GatherND::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  const Shape& indices = context.shape(1);
  check_index_dtype(context.dtype(1), "the indices");
  const int64_t rank = context.rank(0), index_rank = context.rank(1);
  if (rank < 1 || index_rank < 1) fail_rule("input and indices must have at least one axis");
  if (batch_dims < 0 || batch_dims >= std::min(rank, index_rank))
    fail_rule("batch_dims {} must be less than the {} axes of the input and the {} of the indices", batch_dims, rank,
              index_rank);
  const auto depth = indices.back().as_constant();
  if (!depth) fail_rule("the last axis of the indices must have a known size, not {}", indices.back().str());
  if (*depth < 1 || *depth > rank - batch_dims)
    fail_rule("each index names {} axes, the input has {} behind the batch", *depth, rank - batch_dims);
  Shape shape(indices.begin(), indices.end() - 1);
  for (int64_t i = 0; i < batch_dims; ++i) {
    const auto a = static_cast<size_t>(i);
    shape[a] = same_size(x.shape[a], indices[a], "batch of input and indices", a);
  }
  shape.insert(shape.end(), x.shape.begin() + batch_dims + *depth, x.shape.end());
  return {Inferred{{x.dtype, std::move(shape)}}};
}

std::vector<Inferred> ScatterElements::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  const TensorType& updates = context.type(2);
  const Shape& indices = context.shape(1);
  check_axis(axis, context.rank(0));
  check_index_dtype(context.dtype(1), "the indices");
  if (updates.dtype != x.dtype)
    fail_rule("the updates are {}, the input is {}", to_string(updates.dtype), to_string(x.dtype));
  if (kind != ScatterKind::assign && x.dtype == DType::string) fail_rule("strings cannot be combined, only assigned");
  if (indices.size() != x.shape.size() || updates.shape.size() != indices.size())
    fail_rule("input, indices and updates must have as many axes; they have {}, {} and {}", x.shape.size(),
              indices.size(), updates.shape.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    same_size(indices[i], updates.shape[i], "indices and updates", i);
    const auto more = (indices[i] - x.shape[i]).lower_bound();
    if (i != static_cast<size_t>(axis) && more && *more > 0)
      fail_rule("the indices have {} elements on axis {}, the input {}", indices[i].str(), i, x.shape[i].str());
  }
  return {Inferred{x}};
}

std::vector<Inferred> TensorScatter::infer(const InferContext& context) const {
  const TensorType& cache = context.type(0);
  const TensorType& update = context.type(1);
  check_axis(axis, context.rank(0));
  if (axis == 0) fail_rule("the axis of the sequence cannot be 0, the batch's");
  if (update.dtype != cache.dtype)
    fail_rule("the update is {}, the cache is {}", to_string(update.dtype), to_string(cache.dtype));
  if (update.shape.size() != cache.shape.size())
    fail_rule("the update has {} axes, the cache {}", update.shape.size(), cache.shape.size());
  for (size_t i = 0; i < cache.shape.size(); ++i) {
    const auto more = (update.shape[i] - cache.shape[i]).lower_bound();
    if (i != static_cast<size_t>(axis)) {
      same_size(cache.shape[i], update.shape[i], "cache and update", i);
    } else if (more && *more > 0) {
      fail_rule("an update of {} positions does not fit a cache of {}", update.shape[i].str(), cache.shape[i].str());
    }
  }
  if (context.has(2)) {
    check_index_dtype(context.dtype(2), "the write indices");
    if (context.rank(2) != 1) fail_rule("the write indices must have one axis, not {}", context.rank(2));
    same_size(cache.shape[0], context.shape(2)[0], "cache and write indices", 0);
  }
  return {Inferred{cache}};
}

std::vector<Inferred> ReverseSequence::infer(const InferContext& context) const {
  if (context.rank(0) < 2) fail_rule("the input has {} axes, at least 2 are needed", context.rank(0));
  check_index_dtype(context.dtype(1), "the lengths");
  if (context.rank(1) != 1) fail_rule("the lengths must have one axis, not {}", context.rank(1));
  same_size(context.shape(0)[batch_first ? 0 : 1], context.shape(1)[0], "batch of input and lengths", 0);
  return {Inferred{context.type(0)}};
}

std::vector<Inferred> Cumulative::infer(const InferContext& context) const {
  const DType dtype = context.dtype(0);
  if (dtype == DType::string || dtype == DType::boolean) fail_rule("sums of {} are not possible", to_string(dtype));
  if (context.rank(0) < 1) fail_rule("the input must have at least one axis");
  check_index_dtype(context.dtype(1), "the axis");
  if (context.rank(1) > 1 || (context.rank(1) == 1 && provably_different(context.shape(1)[0], 1)))
    fail_rule("the axis must be one number, not {}", to_string(context.type(1)));
  const auto known = known_content(context, 1);
  if (known && known->size() == 1 && known->front().is_constant())
    if (const int64_t axis = known->front().value(); axis < -context.rank(0) || axis >= context.rank(0))
      fail_rule("axis {} does not exist: the tensor has {} axes", axis, context.rank(0));
  return {Inferred{context.type(0)}};
}

}  // namespace camshaft::ops
