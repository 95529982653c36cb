// The reference evaluation of dynamic_squeeze, dynamic_unsqueeze, dynamic_tile and dynamic_split.
#include "reference/control/dynamic.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "ir/ops/dynamic.h"
#include "ir/ops/shape_rules.h"
#include "reference/evaluate.h"

namespace camshaft::ops {

std::vector<Tensor> evaluate_static(const Op& op, const std::vector<Tensor>& inputs, size_t outputs, ThreadPool& pool) {
  std::vector<Value> values(inputs.size());
  std::vector<const Value*> given(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    values[i].type = {inputs[i].dtype(), Shape(inputs[i].dims().begin(), inputs[i].dims().end())};
    given[i] = &values[i];
  }
  const std::vector<Graph> bodies;
  const auto inferred = op.infer(InferContext(std::move(given), std::vector<std::string>(outputs, "y"), &bodies));
  std::vector<TensorType> types;
  for (const Inferred& output : inferred) types.push_back(output.type);
  return camshaft::evaluate(op, EvalContext{inputs, types, {}, bodies, pool});
}

std::vector<int64_t> read_axes(const Tensor& axes, int64_t rank) {
  std::vector<int64_t> list = axes.to_ints();
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t& axis : list) {
    if (axis < -rank || axis >= rank) fail_rule("axis {} does not exist: the tensor has {} axes", axis, rank);
    if (axis < 0) axis += rank;
    if (seen[static_cast<size_t>(axis)]) fail_rule("axis {} is named twice", axis);
    seen[static_cast<size_t>(axis)] = true;
  }
  return list;
}

std::vector<Tensor> DynamicSqueeze::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const auto axes = read_axes(context.input(1), x.rank());
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const int64_t size = x.dims()[static_cast<size_t>(i)];
    const bool drop = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (drop && size != 1) fail_rule("axis {} has {} elements, not 1", i, size);
    if (!drop) shape.emplace_back(size);
  }
  return evaluate_static(Reshape{std::move(shape)}, {x}, 1, context.pool);
}

std::vector<Tensor> DynamicUnsqueeze::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const auto axes = read_axes(context.input(1), rank);
  if (static_cast<int64_t>(axes.size()) != rank - x.rank())
    fail_rule("{} new axes do not make {} axes out of {}", axes.size(), rank, x.rank());
  Shape shape(static_cast<size_t>(rank), Dim(1));
  for (size_t i = 0, from = 0; i < shape.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) shape[i] = x.dims().at(from++);
  return evaluate_static(Reshape{std::move(shape)}, {x}, 1, context.pool);
}

// Each axis becomes two, [1, size], is expanded to [repeats, size] and joined again.
std::vector<Tensor> DynamicTile::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const std::vector<int64_t> repeats = context.input(1).to_ints();
  if (repeats.size() != x.dims().size()) fail_rule("{} repeats for {} axes", repeats.size(), x.rank());
  Shape split, repeated, joined;
  for (size_t i = 0; i < repeats.size(); ++i) {
    int64_t size = 0;
    if (repeats[i] < 0 || __builtin_mul_overflow(repeats[i], x.dims()[i], &size))
      fail_rule("axis {} of {} elements cannot be repeated {} times", i, x.dims()[i], repeats[i]);
    split.insert(split.end(), {1, x.dims()[i]});
    repeated.insert(repeated.end(), {repeats[i], x.dims()[i]});
    joined.emplace_back(size);
  }
  const auto apart = evaluate_static(Reshape{std::move(split)}, {x}, 1, context.pool);
  const auto copies = evaluate_static(Expand{std::move(repeated)}, apart, 1, context.pool);
  return evaluate_static(Reshape{std::move(joined)}, copies, 1, context.pool);
}

std::vector<Tensor> DynamicSplit::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const std::vector<int64_t> sizes = context.input(1).to_ints();
  const int64_t total = x.dims().at(static_cast<size_t>(axis));
  if (sizes.size() != context.output_types.size())
    fail_rule("{} sizes for {} parts", sizes.size(), context.output_types.size());
  std::vector<Tensor> out;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > total - start)
      fail_rule("the parts {} do not fit axis {} of {} elements", to_string(Dims(sizes)), axis, total);
    out.push_back(evaluate_static(Slice{{axis}, {start}, {size}, {1}}, {x}, 1, context.pool).at(0));
    start += size;
  }
  if (start != total) fail_rule("the parts have {} elements, axis {} has {}", start, axis, total);
  return out;
}

}  // namespace camshaft::ops
