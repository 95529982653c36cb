#include "ir/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/shape_rules.h"
#include "ir/ops/strided_access.h"

namespace camshaft::ops {

namespace {

using enum Attention::Input;

Dims table_dims(const StridedAxes& axes, int64_t offset) {
  Dims all{offset};
  for (size_t i = 0; i < axes.sizes.size(); ++i) {
    Dims next;
    next.reserve(all.size() * static_cast<size_t>(axes.sizes[i]));
    for (const int64_t base : all)
      for (int64_t k = 0; k < axes.sizes[i]; ++k) next.push_back(base + k * axes.strides[i]);
    all = std::move(next);
  }
  return all;
}

// Every element of the result is met once: sorted by stride, each axis goes on where the one before ended.
void check_result(const std::vector<StridedAxes>& groups, int64_t elements) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (const StridedAxes& group : groups)
    for (size_t i = 0; i < group.sizes.size(); ++i)
      if (group.sizes[i] != 1) axes.emplace_back(group.strides[i], group.sizes[i]);
  std::sort(axes.begin(), axes.end());
  int64_t next = 1;
  for (const auto& [stride, size] : axes) {
    if (stride != next || size > elements / next) fail_rule("attention does not write each element of its result once");
    next *= size;
  }
  if (next != elements) fail_rule("attention writes {} of the {} elements of its result", next, elements);
}

void check_fields(const Attention& op, size_t masks) {
  const size_t o = op.outer.size(), q = op.queries.size(), k = op.keys.size();
  require_strides(op.query, o + q + 1, "the query");
  require_strides(op.key, o + k + 1, "the key");
  require_strides(op.value, o + k + 1, "the value");
  require_strides(op.result, o + q + 1, "the result");
  if (op.masks.size() != masks * (1 + o + q + k) || op.masked.size() != masks)
    fail_rule("attention has {} masks, its fields do not fit them", masks);
  if (op.size < 1 || op.value_size < 1) fail_rule("attention has heads of {} and {} elements", op.size, op.value_size);
  if (!(op.softcap >= 0) || std::isinf(op.softcap)) fail_rule("attention has a softcap of {}", op.softcap);
}

}  // namespace

std::vector<Inferred> Attention::infer(const InferContext& context) const {
  if (context.input_count() < first_mask) fail_rule("attention takes a query, a key and a value");
  check_fields(*this, context.input_count() - first_mask);
  const DType dtype = context.dtype(in_query);
  for (size_t i = 0; i < context.input_count(); ++i) {
    const bool bool_mask = i >= first_mask && context.dtype(i) == DType::boolean;
    if (!is_floating(dtype) || (context.dtype(i) != dtype && !bool_mask))
      fail_rule("attention of {}: input {} is {}", to_string(dtype), i, to_string(context.dtype(i)));
  }
  const Dim written = count_of(outer) * count_of(queries) * Dim(value_size);
  if (provably_different(written, count_of(shape)))
    fail_rule("attention writes {} elements into a result of {}", written.str(), count_of(shape).str());
  return {{{dtype, shape}}};
}

BoundAttention bind_attention(const Attention& op, const std::vector<Dims>& inputs, const Dims& output,
                              const SymbolBindings& symbols) {
  check_fields(op, inputs.size() - first_mask);
  const size_t o = op.outer.size(), q = op.queries.size();
  const auto sizes_of = [&](const Shape& sizes) {
    Dims dims;
    for (const Dim& d : sizes) dims.push_back(d.evaluate(symbols));
    return element_count(dims);
  };
  BoundAttention bound;
  bound.outer = sizes_of(op.outer);
  bound.queries = sizes_of(op.queries);
  bound.keys = sizes_of(op.keys);
  const int64_t elements = element_count(output);
  if (bound.outer == 0 || bound.queries == 0) {
    if (elements != 0) fail_rule("attention writes nothing of its {} elements", elements);
    return bound;
  }
  // Tables are as long as tensors at most: there are fewer queries than results, and fewer keys than elements of
  // theirs.
  const StridedAxes value_column{{op.value_size}, {op.result.back().evaluate(symbols)}};
  check_result(
      {bind_axes(op.outer, op.result, 1, symbols), bind_axes(op.queries, op.result, 1 + o, symbols), value_column},
      elements);
  if (bound.keys > element_count(inputs[in_key])) fail_rule("attention has more keys than elements of them");
  // A stride of 0 reaches any size.
  if (op.size > std::max(element_count(inputs[in_query]), element_count(inputs[in_key])))
    fail_rule("attention has heads of {} elements, query and key have fewer", op.size);

  const auto bind = [&](const Shape& access, const Shape& rows, int64_t columns, int64_t have, const char* what) {
    const StridedAxes outer_axes = bind_axes(op.outer, access, 1, symbols),
                      row_axes = bind_axes(rows, access, 1 + o, symbols);
    const int64_t offset = access[0].evaluate(symbols), column = access.back().evaluate(symbols);
    int64_t last = offset;
    if (offset < 0 || offset >= have) fail_rule("attention reads or writes {} beyond its {} elements", what, have);
    for (const StridedAxes& axes : {outer_axes, row_axes, StridedAxes{{columns}, {column}}})
      require_inside(axes, have, what, last);
    return AttentionAccess{table_dims(outer_axes, offset), table_dims(row_axes, 0), column, {}};
  };
  bound.query = bind(op.query, op.queries, op.size, element_count(inputs[in_query]), "the query");
  bound.result = bind(op.result, op.queries, op.value_size, elements, "the result");
  if (bound.keys == 0) return bound;
  bound.key = bind(op.key, op.keys, op.size, element_count(inputs[in_key]), "the key");
  bound.value = bind(op.value, op.keys, op.value_size, element_count(inputs[in_value]), "the value");
  const size_t stride = 1 + o + q + op.keys.size();
  for (size_t i = 0; Attention::first_mask + i < inputs.size(); ++i) {
    const Shape access(op.masks.begin() + static_cast<int64_t>(i * stride),
                       op.masks.begin() + static_cast<int64_t>((i + 1) * stride));
    const int64_t offset = access[0].evaluate(symbols), have = element_count(inputs[Attention::first_mask + i]);
    const StridedAxes outer_axes = bind_axes(op.outer, access, 1, symbols),
                      rows = bind_axes(op.queries, access, 1 + o, symbols),
                      columns = bind_axes(op.keys, access, 1 + o + q, symbols);
    int64_t last = offset;
    if (offset < 0 || offset >= have) fail_rule("attention reads a mask beyond its {} elements", have);
    for (const StridedAxes& axes : {outer_axes, rows, columns}) require_inside(axes, have, "a mask", last);
    bound.masks.push_back({table_dims(outer_axes, offset), table_dims(rows, 0), 0, table_dims(columns, 0)});
  }
  return bound;
}

}  // namespace camshaft::ops
