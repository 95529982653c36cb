// Operators that move elements, with sizes as fields.
#include <algorithm>
#include <optional>

#include "ir/dim_terms.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/select.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

namespace {

/// The axes of `longer` that are 1 and no axes of `shorter`, which has all others in the same order; none where there
/// are no such.
std::optional<std::vector<int64_t>> unit_axes(const Shape& shorter, const Shape& longer) {
  std::vector<int64_t> axes;
  size_t at = 0;
  for (size_t i = 0; i < longer.size(); ++i) {
    if (at < shorter.size() && shorter[at] == longer[i]) {
      ++at;
    } else if (longer[i] == Dim(1)) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      return std::nullopt;
    }
  }
  return at == shorter.size() && !axes.empty() ? std::optional(axes) : std::nullopt;
}

bool all_constant(const Shape& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const Dim& size) { return size.is_constant(); });
}

/// The other operand of min(size, x), an end beyond which a slice stops anyway.
std::optional<Dim> bounded_by(const Dim& size, const Dim& end) {
  const DimTerms parts = terms_of(end);
  if (parts.constant != 0 || parts.terms.size() != 1 || parts.terms[0].coefficient != 1 ||
      parts.terms[0].factors.size() != 1)
    return std::nullopt;
  const DimFactor& factor = parts.terms[0].factors[0];
  if (factor.function != DimFunction::min || (factor.a != size && factor.b != size)) return std::nullopt;
  const Dim& other = factor.a == size ? factor.b : factor.a;
  const auto low = other.lower_bound();  // a negative end would count from behind
  return low && *low >= 0 ? std::optional(other) : std::nullopt;
}

}  // namespace

void export_as(ExportContext& c, const ops::Reshape& op) {
  Attributes attributes;
  if (c.has(1)) {
    if (op.allow_zero) attributes.integer("allowzero", 1);
    return c.result("Reshape", c.inputs(), std::move(attributes));
  }
  const ReshapeTarget target = reshape_target(c.shape(0), op.shape);
  const std::string x = c.input(0);
  if (!all_constant(target.sizes)) {  // sizes would be computed, which axes of one element need not be
    if (const auto added = unit_axes(c.shape(0), op.shape)) return c.result("Unsqueeze", {x, c.ints(*added)});
    if (const auto dropped = unit_axes(op.shape, c.shape(0))) return c.result("Squeeze", {x, c.ints(*dropped)});
  }
  if (target.allow_zero) attributes.integer("allowzero", 1);
  c.result("Reshape", {x, c.sizes(target.sizes)}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::Transpose& op) {
  c.result("Transpose", {c.input(0)}, Attributes().integers("perm", op.permutation));
}

void export_as(ExportContext& c, const ops::Expand& op) {
  if (c.has(1)) return c.result("Expand", c.inputs());
  // Both sides broadcast: a size that stays is 1 here, and no arithmetic.
  Shape to = op.shape;
  const Shape& from = c.shape(0);
  for (size_t i = 0; i < std::min(to.size(), from.size()); ++i) {
    Dim& size = to[to.size() - 1 - i];
    if (size == from[from.size() - 1 - i]) size = 1;
  }
  const std::string x = c.input(0);
  c.result("Expand", {x, c.sizes(to)});
}

void export_as(ExportContext& c, const ops::Concat& op) {
  c.result("Concat", c.inputs(), Attributes().integer("axis", op.axis));
}

void export_as(ExportContext& c, const ops::Slice& op) {
  Shape starts, ends;
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const Dim &size = c.shape(0)[static_cast<size_t>(op.axes[i])], &count = op.counts[i];
    if (count == Dim(0)) {
      starts.emplace_back(0);
      ends.emplace_back(0);
      continue;
    }
    starts.push_back(op.starts[i]);
    if (op.steps[i] > 0) {
      const Dim last = op.starts[i] + (count - Dim(1)) * Dim(op.steps[i]);
      ends.push_back(op.steps[i] == 1 ? op.starts[i] + count : last + Dim(1));
      // Of a symbolic count of 0 the start means nothing, and the end must not lie behind it.
      if (op.steps[i] > 1 && !count.is_constant()) ends.back() = op.starts[i] + count * Dim(op.steps[i]);
      if (op.steps[i] == 1) ends.back() = bounded_by(size, ends.back()).value_or(ends.back());
    } else {
      // The element before the last one taken, counted from behind: -1 would be the last of all.
      ends.push_back(op.starts[i] + count * Dim(op.steps[i]) - size);
      if (const auto end = ends.back().as_constant(); end && size.is_constant() && *end < -size.value() - 1)
        ends.back() = Dim(-size.value() - 1);
    }
  }
  const std::string x = c.input(0), from = c.sizes(starts), to = c.sizes(ends);
  const std::string axes = c.ints(op.axes);
  bool steps = false;
  for (const int64_t step : op.steps) steps = steps || step != 1;
  c.result("Slice", {x, from, to, axes, steps ? c.ints(op.steps) : ""});
}

void export_as(ExportContext& c, const ops::DynamicSlice&) {
  c.result("Slice", c.inputs());
}

void export_as(ExportContext& c, const ops::Pad& op) {
  const std::string x = c.input(0);
  Attributes attributes;
  if (op.mode != ops::PadMode::constant)
    attributes.text("mode", EnumNames<ops::PadMode>::values[static_cast<size_t>(op.mode)]);
  c.result("Pad", {x, c.sizes(op.pads), c.input(1)}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::Gather& op) {
  c.result("Gather", c.inputs(), Attributes().integer("axis", op.axis));
}

void export_as(ExportContext& c, const ops::GatherElements& op) {
  c.result("GatherElements", c.inputs(), Attributes().integer("axis", op.axis));
}

namespace {

Attributes reduction(ops::ScatterKind kind) {
  Attributes attributes;
  if (kind != ops::ScatterKind::assign)
    attributes.text("reduction", EnumNames<ops::ScatterKind>::values[static_cast<size_t>(kind)]);
  return attributes;
}

}  // namespace

void export_as(ExportContext& c, const ops::ScatterND& op) {
  c.result("ScatterND", {c.input(0), c.indices(1), c.input(2)}, reduction(op.kind));
}

void export_as(ExportContext& c, const ops::ScatterElements& op) {
  c.result("ScatterElements", c.inputs(), reduction(op.kind).integer("axis", op.axis));
}

void export_as(ExportContext& c, const ops::GatherND& op) {
  c.result("GatherND", {c.input(0), c.indices(1)}, Attributes().integer("batch_dims", op.batch_dims));
}

void export_as(ExportContext& c, const ops::TensorScatter& op) {
  c.result({"TensorScatter", 24}, {c.input(0), c.input(1), c.indices(2)},
           Attributes().integer("axis", op.axis).text("mode", op.circular ? "circular" : "linear"));
}

void export_as(ExportContext& c, const ops::ReverseSequence& op) {
  c.result("ReverseSequence", {c.input(0), c.indices(1)},
           Attributes().integer("batch_axis", op.batch_first ? 0 : 1).integer("time_axis", op.batch_first ? 1 : 0));
}

void export_as(ExportContext& c, const ops::Cumulative& op) {
  const Attributes attributes = Attributes().flag("exclusive", op.exclusive).flag("reverse", op.reverse);
  if (op.kind == ops::CumulativeKind::sum) return c.result("CumSum", c.inputs(), attributes);
  c.result({"CumProd", 26}, c.inputs(), attributes);
}

void export_as(ExportContext& c, const ops::TopK& op) {
  const std::string k = c.reshape(c.indices(1), c.shape(1), {1});
  c.result({"TopK", c.dtype(0) == DType::bf16 ? 24 : 0}, {c.input(0), k},
           Attributes().integer("axis", op.axis).flag("largest", op.largest));
}

void export_as(ExportContext& c, const ops::NonZero&) {
  c.result("NonZero", c.inputs());
}

void export_as(ExportContext& c, const ops::Unique& op) {
  Attributes attributes = Attributes().flag("sorted", op.sorted);
  if (op.axis >= 0) attributes.integer("axis", op.axis);
  c.result("Unique", c.inputs(), std::move(attributes));
}

void export_as(ExportContext& c, const ops::NonMaxSuppression& op) {
  if (c.shape(0)[2] == Dim(5)) c.unsupported("boxes that are turned");
  c.result("NonMaxSuppression", c.inputs(), Attributes().flag("center_point_box", op.center_point_box));
}

}  // namespace camshaft::onnx
