#include "ir/ops/rotary_embedding.h"

#include <algorithm>

#include "ir/ops/broadcast.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strided_access.h"

namespace camshaft::ops {

namespace {

using enum RotaryEmbedding::Input;

void check_table(const Shape& access, size_t axes, const char* what) {
  require_strides(access, axes + 2, what);
  const Dim &second = access[axes + 1], &pair = access[axes + 2];
  if (!second.is_constant() || second.value() < 0 || !(pair == Dim(1) || (pair == Dim(2) && second == Dim(1))))
    fail_rule("{} of a rotary embedding have strides of {} and {} between angles", what, second.str(), pair.str());
}

void check_fields(const RotaryEmbedding& op) {
  if (op.shape.empty()) fail_rule("a rotary embedding has no rows");
  if (op.rotated < 0 || op.rotated % 2 != 0) fail_rule("{} elements cannot be rotated in pairs", op.rotated);
  if (provably_different(max(op.shape.back(), op.rotated), op.shape.back()))
    fail_rule("{} of {} elements cannot be rotated", op.rotated, op.shape.back().str());
  require_strides(op.x, op.axes.size(), "the operand");
  check_table(op.cosine, op.axes.size(), "cosines");
  check_table(op.sine, op.axes.size(), "sines");
}

// The access to a dense tensor along the leading axes of another that it broadcasts to.
Shape broadcast_access(const Shape& shape, const Shape& to) {
  if (shape.size() > to.size()) fail_rule("a table of {} axes cannot be broadcast to {}", shape.size(), to.size());
  const size_t lead = to.size() - shape.size();
  for (size_t d = 0; d + 1 < shape.size(); ++d)
    if (!(shape[d] == Dim(1)) && provably_different(shape[d], to[lead + d]))
      fail_rule("a table's axis {} has size {}, which cannot be broadcast to {}", d, shape[d].str(),
                to[lead + d].str());
  Shape access = broadcast_strides(shape, to);
  access.pop_back();
  access.insert(access.begin(), Dim(0));
  return access;
}

}  // namespace

RotaryEmbedding dense_rotary_embedding(const Shape& x, const Shape& cosine, const Shape& sine, int64_t rotated,
                                       bool interleaved) {
  RotaryEmbedding op{interleaved, rotated, true, Shape(x.begin(), x.end() - 1), broadcast_access(x, x), {}, {}, x};
  for (const auto& [shape, access] : {std::pair(&cosine, &op.cosine), std::pair(&sine, &op.sine)}) {
    *access = broadcast_access(*shape, x);
    access->insert(access->end(), {Dim(0), Dim(1)});
  }
  return op;
}

std::vector<Inferred> RotaryEmbedding::infer(const InferContext& context) const {
  if (context.input_count() != input_count) fail_rule("a rotary embedding takes x, cosines and sines");
  check_fields(*this);
  const DType tables = context.dtype(in_cosine);
  for (size_t i = 0; i < input_count; ++i)
    if (!is_floating(context.dtype(i)) || (i != in_x && context.dtype(i) != tables))
      fail_rule("a rotary embedding by tables of {}: input {} is {}", to_string(tables), i,
                to_string(context.dtype(i)));
  const Shape rows(shape.begin(), shape.end() - 1);
  if (provably_different(count_of(axes), count_of(rows)))
    fail_rule("a rotary embedding makes {} rows, the result has {}", count_of(axes).str(), count_of(rows).str());
  return {{{context.dtype(in_x), shape}}};
}

BoundRotaryEmbedding bind_rotary_embedding(const RotaryEmbedding& op, const std::vector<Dims>& inputs,
                                           const Dims& output, const SymbolBindings& symbols) {
  check_fields(op);
  BoundRotaryEmbedding bound;
  bound.width = output.back();
  if (op.rotated > bound.width) fail_rule("{} of {} elements cannot be rotated", op.rotated, bound.width);
  for (const Dim& d : op.axes) bound.axes.push_back(d.evaluate(symbols));
  bound.rows = element_count(bound.axes);
  if (bound.rows != element_count(Dims(output.begin(), output.end() - 1)))
    fail_rule("a rotary embedding makes {} rows of a result of {} elements", bound.rows, element_count(output));
  const bool empty = bound.rows == 0 || bound.width == 0;
  const auto bind = [&](const Shape& access, size_t input, const StridedAxes& row, bool whole, const char* what) {
    const int64_t elements = element_count(inputs[input]), offset = access[0].evaluate(symbols);
    const StridedAxes axes = bind_axes(op.axes, access, 1, symbols);
    if (!empty && !std::count(row.sizes.begin(), row.sizes.end(), 0)) {
      if (offset < 0 || offset >= elements) fail_rule("strides lead to {} beyond its {} elements", what, elements);
      int64_t last = offset;
      for (const StridedAxes& a : {axes, row}) require_inside(a, elements, what, last);
      if (whole && last + 1 != elements)
        fail_rule(
            "{} cannot be broadcast to the rows of a rotary embedding: they have {} elements, of which {} are read",
            what, elements, last + 1);
    }
    return RotaryAccess{offset, axes.strides};
  };
  bound.x = bind(op.x, in_x, {{bound.width}, {1}}, false, "the operand");
  const auto table = [&](const Shape& access, size_t input, const char* what) {
    const int64_t second = access[op.axes.size() + 1].value(), pair = access[op.axes.size() + 2].value();
    RotaryAccess a =
        bind(access, input, {{op.rotated > 0 ? 2 : 0, op.rotated / 2}, {second, pair}}, op.whole_tables, what);
    a.second = second;
    a.pair = pair;
    return a;
  };
  bound.cosine = table(op.cosine, in_cosine, "the cosines");
  bound.sine = table(op.sine, in_sine, "the sines");
  return bound;
}

}  // namespace camshaft::ops
