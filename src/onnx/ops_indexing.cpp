// Operators that take parts of tensors or put tensors together.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/ops/dynamic.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/slice_bounds.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

Values concat(ConvertContext& c) {
  const Values& inputs = c.all_inputs();
  const int64_t axis = c.axis(c.int_attribute("axis"), c.rank(inputs[0]));
  if (inputs.size() == 1) return {inputs[0]};
  return c.result(ops::Concat{axis}, inputs);
}

struct SliceBounds {
  std::vector<Dim> starts, ends;
  std::vector<int64_t> axes, steps;
};

// The bounds as expressions; nullopt when they are data.
std::optional<SliceBounds> known_bounds(ConvertContext& c) {
  SliceBounds b;
  const int64_t rank = c.rank(c.input(0));
  if (c.opset() < 10) {
    const auto starts = c.ints_attribute("starts"), ends = c.ints_attribute("ends"), axes = c.ints_attribute("axes");
    if (!starts || !ends) c.invalid("attributes 'starts' and 'ends' are needed");
    b.starts.assign(starts->begin(), starts->end());
    b.ends.assign(ends->begin(), ends->end());
    if (axes) b.axes = *axes;
  } else {
    const auto starts = c.content(c.input(1)), ends = c.content(c.input(2));
    if (!starts || !ends) return std::nullopt;
    b.starts = *starts;
    b.ends = *ends;
    for (const size_t i : {size_t{3}, size_t{4}}) {
      if (!c.has(i)) continue;
      const auto list = c.constant(c.input(i));
      if (!list) return std::nullopt;
      (i == 3 ? b.axes : b.steps) = list->to_ints();
    }
  }
  if (b.axes.empty())
    for (size_t i = 0; i < b.starts.size(); ++i) b.axes.push_back(static_cast<int64_t>(i));
  if (b.steps.empty()) b.steps.assign(b.starts.size(), 1);
  if (b.ends.size() != b.starts.size() || b.axes.size() != b.starts.size() || b.steps.size() != b.starts.size())
    c.invalid(fmt::format("{} starts, {} ends, {} axes and {} steps do not fit together", b.starts.size(),
                          b.ends.size(), b.axes.size(), b.steps.size()));
  b.axes = c.axes(std::move(b.axes), rank);
  return b;
}

Values slice(ConvertContext& c) {
  const ValueId x = c.input(0);
  const auto dynamic = [&] {
    Values inputs{x};
    for (size_t i = 1; i < 5; ++i) inputs.push_back(c.input_or_none(i));
    return c.result(ops::DynamicSlice{}, std::move(inputs));
  };
  const auto bounds = known_bounds(c);
  if (!bounds) return dynamic();
  ops::Slice op;
  for (size_t i = 0; i < bounds->axes.size(); ++i) {
    const Dim& size = c.dim(x, bounds->axes[i]);
    const auto range = ops::slice_range(bounds->starts[i], bounds->ends[i], bounds->steps[i], size);
    if (!range && c.opset() < 10) c.unsupported(fmt::format("the range of axis {} cannot be told", bounds->axes[i]));
    if (!range) return dynamic();
    if (range->start == Dim(0) && range->count == size && bounds->steps[i] == 1) continue;
    op.axes.push_back(bounds->axes[i]);
    op.starts.push_back(range->start);
    op.counts.push_back(range->count);
    op.steps.push_back(bounds->steps[i]);
  }
  return op.axes.empty() ? Values{x} : c.result(std::move(op), {x});
}

// The sizes of the parts; nullopt when they are data. Operator set 18 rounds up and leaves the last part smaller.
std::optional<std::vector<Dim>> split_sizes(ConvertContext& c, const Dim& size) {
  if (const auto given = c.ints_attribute("split")) return std::vector<Dim>(given->begin(), given->end());
  if (c.has(1)) return c.content(c.input(1));
  const auto parts = static_cast<int64_t>(c.output_count());
  if (c.opset() >= 18 && c.int_attribute("num_outputs", parts) != parts)
    c.invalid(fmt::format("num_outputs is {}, the node has {} outputs", c.int_attribute("num_outputs"), parts));
  const Dim part = c.opset() >= 18 ? ceil_div(size, parts) : floor_div(size, parts);
  std::vector<Dim> sizes(static_cast<size_t>(parts), part);
  sizes.back() = size - part * Dim(parts - 1);
  return sizes;
}

Values split(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t axis = c.axis(c.int_attribute("axis", 0), c.rank(x));
  const auto known = split_sizes(c, c.dim(x, axis));
  if (!known) return c.results(ops::DynamicSplit{axis}, {x, c.input(1)}, {});
  const std::vector<Dim>& sizes = *known;
  if (sizes.size() != c.output_count())
    c.invalid(fmt::format("{} sizes for {} outputs", sizes.size(), c.output_count()));
  Values outputs;
  Dim start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    outputs.push_back(c.uses_output(i) ? c.result_at(i, ops::Slice{{axis}, {start}, {sizes[i]}, {1}}, {x}) : no_value);
    start = start + sizes[i];
  }
  if (const Dim rest = c.dim(x, axis) - start; rest.is_constant() && !(rest == Dim(0)))
    c.invalid(fmt::format("the parts have {} elements, axis {} has {}", start.str(), axis, c.dim(x, axis).str()));
  return outputs;
}

ops::PadMode pad_mode(ConvertContext& c) {
  const std::string mode = c.string_attribute("mode", "constant");
  if (mode == "constant") return ops::PadMode::constant;
  if (mode == "reflect") return ops::PadMode::reflect;
  if (mode == "edge") return ops::PadMode::edge;
  if (mode == "wrap") return ops::PadMode::wrap;
  c.invalid(fmt::format("mode '{}' is unknown", mode));
}

Values pad(ConvertContext& c) {
  const ValueId x = c.input(0);
  const auto rank = static_cast<size_t>(c.rank(x));
  std::vector<Dim> given;
  std::vector<int64_t> axes;
  ValueId value = no_value;
  if (c.opset() < 11) {
    const auto pads = c.ints_attribute("pads");
    if (!pads) c.invalid("attribute 'pads' is missing");
    given.assign(pads->begin(), pads->end());
    if (const double v = c.float_attribute("value", 0); v != 0) value = c.scalar(c.dtype(x), v);
  } else {
    value = c.input_or_none(2);
    const auto content = c.content(c.input(1));
    if (!content || (c.has(3) && !c.constant(c.input(3)))) {
      const ops::PadMode mode = pad_mode(c);
      if (value != no_value && c.rank(value) != 0) value = c.reshape(value, {});
      if (mode != ops::PadMode::constant) value = no_value;
      return c.result(ops::DynamicPad{mode}, {x, c.input(1), value, c.input_or_none(3)});
    }
    given = *content;
    if (c.has(3)) axes = c.axes(c.ints(c.input(3), "the axes"), c.rank(x));
  }
  if (c.opset() < 11 || !c.has(3))
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  if (given.size() != 2 * axes.size()) c.invalid(fmt::format("{} pads for {} axes", given.size(), axes.size()));
  Shape pads(2 * rank, Dim(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    pads[static_cast<size_t>(axes[i])] = given[i];
    pads[rank + static_cast<size_t>(axes[i])] = given[axes.size() + i];
  }
  if (std::all_of(pads.begin(), pads.end(), [](const Dim& d) { return d == Dim(0); })) return {x};
  if (value != no_value && c.rank(value) != 0) value = c.reshape(value, {});
  const ops::PadMode mode = pad_mode(c);
  Values inputs{x};
  if (value != no_value && mode == ops::PadMode::constant) inputs.push_back(value);
  return c.result(ops::Pad{mode, std::move(pads)}, std::move(inputs));
}

// Each axis is cropped or padded to its size, about its centre: of an odd difference the end takes one more.
Values center_crop_pad(ConvertContext& c) {
  const ValueId x = c.input(0), sizes = c.input(1);
  const int64_t rank = c.rank(x);
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  axes = c.axes(c.ints_attribute("axes").value_or(axes), rank);
  const auto count = static_cast<int64_t>(axes.size());
  if (c.rank(sizes) != 1 || c.dim(sizes, 0).as_constant().value_or(count) != count)
    c.invalid(fmt::format("the shape must have one size for each of {} axes", count));
  Shape from;
  for (const int64_t axis : axes) from.push_back(c.dim(x, axis));
  if (const auto to = c.content(sizes)) {
    ops::Slice crop;
    ops::Pad pad{ops::PadMode::constant, Shape(2 * static_cast<size_t>(rank), Dim(0))};
    bool pads = false;
    for (size_t i = 0; i < axes.size(); ++i) {
      const Dim kept = min(from[i], (*to)[i]), missing = (*to)[i] - kept;
      if (!(kept == from[i])) {
        crop.axes.push_back(axes[i]);
        crop.starts.push_back(floor_div(from[i] - kept, 2));
        crop.counts.push_back(kept);
        crop.steps.push_back(1);
      }
      const auto axis = static_cast<size_t>(axes[i]);
      pad.pads[axis] = floor_div(missing, 2);
      pad.pads[static_cast<size_t>(rank) + axis] = missing - pad.pads[axis];
      pads = pads || !(missing == Dim(0));
    }
    const ValueId cropped = crop.axes.empty() ? x : c.add(std::move(crop), {x});
    return pads ? c.result(std::move(pad), {cropped}) : Values{cropped};
  }
  const ValueId to = c.cast(sizes, DType::i64), now = c.add(ops::DimsTensor{from, DType::i64, false}, {});
  const ValueId list = c.add_constant(Tensor::from_ints(axes)), two = c.scalar(DType::i64, 2);
  const ValueId kept = c.add(F::min, {now, to}), missing = c.add(F::sub, {to, kept});
  const ValueId start = c.add(F::div, {c.add(F::sub, {now, kept}), two});
  const ValueId cropped = c.add(ops::DynamicSlice{}, {x, start, c.add(F::add, {start, kept}), list});
  const ValueId before = c.add(F::div, {missing, two}), after = c.add(F::sub, {missing, before});
  return c.result(ops::DynamicPad{}, {cropped, c.add(ops::Concat{0}, {before, after}), no_value, list});
}

Values gather(ConvertContext& c) {
  const int64_t axis = c.axis(c.int_attribute("axis", 0), c.rank(c.input(0)));
  return c.result(ops::Gather{axis}, {c.input(0), c.input(1)});
}

Values gather_elements(ConvertContext& c) {
  const int64_t axis = c.axis(c.int_attribute("axis", 0), c.rank(c.input(0)));
  return c.result(ops::GatherElements{axis}, {c.input(0), c.input(1)});
}

Values scatter_nd(ConvertContext& c) {
  const std::string reduction = c.string_attribute("reduction", "none");
  ops::ScatterND op;
  if (reduction == "none") {
    op.kind = ops::ScatterKind::assign;
  } else if (reduction == "add") {
    op.kind = ops::ScatterKind::add;
  } else if (reduction == "mul") {
    op.kind = ops::ScatterKind::mul;
  } else if (reduction == "max") {
    op.kind = ops::ScatterKind::max;
  } else if (reduction == "min") {
    op.kind = ops::ScatterKind::min;
  } else {
    c.invalid(fmt::format("reduction '{}' is unknown", reduction));
  }
  return c.result(op, {c.input(0), c.input(1), c.input(2)});
}

constexpr Converter indexing_table[] = {
    {"CenterCropPad", center_crop_pad, 18},
    {"Concat", concat},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"Pad", pad},
    {"ScatterND", scatter_nd, 11},
    {"Slice", slice},
    {"Split", split},
};

}  // namespace

std::span<const Converter> indexing_converters() {
  return indexing_table;
}

}  // namespace camshaft::onnx
