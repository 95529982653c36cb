// Operators that select, index and accumulate at positions that are data.
#include <fmt/format.h>

#include <string>

#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/select.h"
#include "onnx/converters.h"
#include "onnx/generators.h"

namespace camshaft::onnx {

namespace {

Values top_k(ConvertContext& c) {
  const ValueId x = c.input(0);
  ops::TopK op;
  op.axis = c.axis(c.int_attribute("axis", -1), c.rank(x));
  op.largest = c.int_attribute("largest", 1) != 0;
  const ValueId k = c.opset() < 10 ? c.add_constant(Tensor::from_ints({c.int_attribute("k")})) : c.input(1);
  // Whole lines in any order are the lines as they are.
  const Dim size = c.dim(x, op.axis);
  const bool takes = c.dtype(x) != DType::boolean && c.dtype(x) != DType::string;
  if (takes && c.int_attribute("sorted", 1) == 0 && c.content(k) == Shape{size}) {
    if (!c.uses_output(1)) return {x};
    Shape of_line(c.shape(x).size(), Dim(1));
    of_line[static_cast<size_t>(op.axis)] = size;
    const ValueId places = c.reshape(iota(c, size), of_line);
    return {x, c.result_at(1, ops::Expand{c.shape(x)}, {places})};
  }
  return c.results(op, {x, k}, {});
}

Values non_max_suppression(ConvertContext& c) {
  const int64_t format = c.int_attribute("center_point_box", 0);
  if (format != 0 && format != 1) c.invalid(fmt::format("center_point_box is {}, not 0 or 1", format));
  Values inputs{c.input(0), c.input(1)};
  for (size_t i = 2; i < 5; ++i) inputs.push_back(c.input_or_none(i));
  return c.result(ops::NonMaxSuppression{format == 1}, std::move(inputs));
}

Values non_zero(ConvertContext& c) {
  return c.result(ops::NonZero{}, {c.input(0)});
}

// The positions where the condition holds, gathered.
Values compress(ConvertContext& c) {
  ValueId x = c.input(0);
  const ValueId condition = c.input(1);
  if (c.rank(condition) != 1) c.invalid(fmt::format("the condition has {} axes, not 1", c.rank(condition)));
  int64_t axis = 0;
  if (c.has_attribute("axis")) {
    axis = c.axis(c.int_attribute("axis"), c.rank(x));
  } else {
    x = c.reshape(x, {product(c.shape(x))});
  }
  const ValueId found = c.add(ops::NonZero{}, {condition});
  return c.result(ops::Gather{axis}, {x, c.reshape(found, {c.dim(found, 1)})});
}

Values unique(ConvertContext& c) {
  ops::Unique op;
  if (c.has_attribute("axis")) op.axis = c.axis(c.int_attribute("axis"), c.rank(c.input(0)));
  op.sorted = c.int_attribute("sorted", 1) != 0;
  return c.results(op, {c.input(0)}, {});
}

Values gather_nd(ConvertContext& c) {
  return c.result(ops::GatherND{c.opset() < 12 ? 0 : c.int_attribute("batch_dims", 0)}, {c.input(0), c.input(1)});
}

Values scatter_elements(ConvertContext& c) {
  ops::ScatterElements op;
  op.axis = c.axis(c.int_attribute("axis", 0), c.rank(c.input(0)));
  const std::string reduction = c.string_attribute("reduction", "none");
  constexpr std::string_view names[] = {"none", "add", "mul", "max", "min"};
  size_t kind = 0;
  while (kind < std::size(names) && names[kind] != reduction) ++kind;
  if (kind == std::size(names)) c.invalid(fmt::format("reduction '{}' is unknown", reduction));
  op.kind = static_cast<ops::ScatterKind>(kind);
  return c.result(op, {c.input(0), c.input(1), c.input(2)});
}

Values tensor_scatter(ConvertContext& c) {
  const std::string mode = c.string_attribute("mode", "linear");
  if (mode != "linear" && mode != "circular") c.invalid(fmt::format("mode '{}' is unknown", mode));
  const ops::TensorScatter op{c.axis(c.int_attribute("axis", -2), c.rank(c.input(0))), mode == "circular"};
  return c.result(op, {c.input(0), c.input(1), c.input_or_none(2)});
}

Values reverse_sequence(ConvertContext& c) {
  const int64_t batch = c.int_attribute("batch_axis", 1), time = c.int_attribute("time_axis", 0);
  if (!(batch == 0 && time == 1) && !(batch == 1 && time == 0))
    c.invalid(fmt::format("batch_axis {} and time_axis {} must be 0 and 1 in either order", batch, time));
  return c.result(ops::ReverseSequence{batch == 0}, {c.input(0), c.input(1)});
}

Values cumulative(ConvertContext& c, ops::CumulativeKind kind) {
  const ops::Cumulative op{kind, c.int_attribute("exclusive", 0) != 0, c.int_attribute("reverse", 0) != 0};
  return c.result(op, {c.input(0), c.input(1)});
}
Values cum_sum(ConvertContext& c) {
  return cumulative(c, ops::CumulativeKind::sum);
}
Values cum_prod(ConvertContext& c) {
  return cumulative(c, ops::CumulativeKind::product);
}

constexpr Converter select_table[] = {
    {"Compress", compress, 9},
    {"CumProd", cum_prod, 26},
    {"CumSum", cum_sum, 11},
    {"GatherND", gather_nd, 11},
    {"NonMaxSuppression", non_max_suppression, 10},
    {"NonZero", non_zero, 9},
    {"ReverseSequence", reverse_sequence, 10},
    {"Scatter", scatter_elements, 9},
    {"ScatterElements", scatter_elements, 11},
    {"TensorScatter", tensor_scatter, 24},
    {"TopK", top_k},
    {"Unique", unique, 11},
};

}  // namespace

std::span<const Converter> select_converters() {
  return select_table;
}

}  // namespace camshaft::onnx
