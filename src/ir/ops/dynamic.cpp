// What operators with parameters that are data share, and those that only change shapes.
#include "ir/ops/dynamic.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

// A list of axes, sizes or the like; one number may come as a scalar.
void check_list(const InferContext& context, size_t i, const char* what) {
  check_index_dtype(context.dtype(i), what);
  if (context.rank(i) > 1) fail_rule("{} must be 1-D, not {}-D", what, context.rank(i));
}

std::optional<int64_t> list_length(const InferContext& context, size_t i) {
  return context.rank(i) == 0 ? std::optional<int64_t>(1) : context.shape(i)[0].as_constant();
}

// Between the ranks of x and of the result lie as many axes as there are in the list.
void check_rank_change(const InferContext& context, int64_t change, const char* what) {
  const auto count = list_length(context, 1);
  if (change < 0 || (count && *count != change))
    fail_rule("{} axes are {}, the result would have {} axes fewer or more", count.value_or(-1), what, change);
}

}  // namespace

std::vector<Inferred> DynamicSqueeze::infer(const InferContext& context) const {
  check_list(context, 1, "the axes");
  if (rank < 0) fail_rule("a tensor of {} axes cannot be squeezed to {}", context.rank(0), rank);
  check_rank_change(context, context.rank(0) - rank, "squeezed");
  Inferred out{{context.dtype(0), {}}};
  for (int64_t i = 0; i < rank; ++i) out.type.shape.push_back(context.fresh(0, static_cast<size_t>(i)));
  return {out};
}

std::vector<Inferred> DynamicUnsqueeze::infer(const InferContext& context) const {
  check_list(context, 1, "the axes");
  constexpr int64_t largest_rank = 64;  // as where a model is read
  if (rank < 0 || rank > largest_rank)
    fail_rule("the result would have {} axes; at most {} can be", rank, largest_rank);
  check_rank_change(context, rank - context.rank(0), "new");
  Inferred out{{context.dtype(0), {}}};
  for (int64_t i = 0; i < rank; ++i) out.type.shape.push_back(context.fresh(0, static_cast<size_t>(i)));
  return {out};
}

std::vector<Inferred> DynamicTile::infer(const InferContext& context) const {
  check_list(context, 1, "the repeats");
  Inferred out{context.type(0)};
  if (const auto count = list_length(context, 1); count && *count != context.rank(0))
    fail_rule("{} repeats for {} axes", *count, context.rank(0));
  for (size_t i = 0; i < out.type.shape.size(); ++i)
    if (!(out.type.shape[i] == Dim(0))) out.type.shape[i] = context.fresh(0, i);
  return {out};
}

std::vector<Inferred> DynamicSplit::infer(const InferContext& context) const {
  check_list(context, 1, "the sizes of the parts");
  check_axis(axis, context.rank(0));
  if (const auto count = list_length(context, 1); count && *count != static_cast<int64_t>(context.output_count()))
    fail_rule("{} sizes for {} parts", *count, context.output_count());
  std::vector<Inferred> out;
  for (size_t i = 0; i < context.output_count(); ++i) {
    out.push_back({context.type(0)});
    out.back().type.shape[static_cast<size_t>(axis)] = context.fresh(i, static_cast<size_t>(axis));
  }
  return out;
}

}  // namespace camshaft::ops
