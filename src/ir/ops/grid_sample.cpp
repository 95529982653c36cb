#include "ir/ops/sample.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> GridSample::infer(const InferContext& context) const {
  const Shape &x = context.shape(0), &grid = context.shape(1);
  const int64_t rank = context.rank(0);
  if (rank < 3 || context.rank(1) != rank)
    fail_rule("input and grid must have as many axes, at least 3; they have {} and {}", rank, context.rank(1));
  constexpr int64_t most_spatial_axes = 8;  // a sample of n axes has up to 4^n taps
  if (rank - 2 > most_spatial_axes)
    fail_rule("images of {} axes cannot be sampled, {} are possible", rank - 2, most_spatial_axes);
  if (provably_different(grid.back(), rank - 2))
    fail_rule("the grid's last axis must have size {}, not {}", rank - 2, grid.back().str());
  if (!is_floating(context.dtype(1))) fail_rule("the grid must be floating-point, not {}", to_string(context.dtype(1)));
  if (context.dtype(0) == DType::string || (mode != SampleMode::nearest && context.dtype(0) == DType::boolean))
    fail_rule("{} cannot be interpolated", to_string(context.dtype(0)));
  Shape shape{same_size(x[0], grid[0], "batch of input and grid", 0), x[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  return {Inferred{{context.dtype(0), std::move(shape)}}};
}

}  // namespace camshaft::ops
