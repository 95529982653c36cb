#include "optimize/layout/narrow_transposes.h"

#include <algorithm>
#include <optional>

#include "ir/ops/index_map.h"
#include "ir/ops/move.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

struct Range {
  int64_t begin = 0, end = 0;
};

// What a slice with constant bounds has of an axis of `size` elements; all of it where it does not cut that axis.
std::optional<Range> range_of(const ops::Slice& slice, int64_t axis, int64_t size) {
  const auto at = std::find(slice.axes.begin(), slice.axes.end(), axis);
  if (at == slice.axes.end()) return Range{0, size};
  const auto i = static_cast<size_t>(at - slice.axes.begin());
  const auto start = slice.starts[i].as_constant(), count = slice.counts[i].as_constant();
  if (!start || !count || *count < 1 || slice.steps[i] < 1) return std::nullopt;
  return Range{*start, *start + (*count - 1) * slice.steps[i] + 1};
}

// Of each axis of a transpose's result what its readers have; nullopt where that is all.
std::optional<std::vector<Range>> ranges_of(const Graph& graph, const Uses& uses, const Node& node) {
  const auto result = static_cast<size_t>(node.outputs[0]);
  if (uses.is_output[result] || uses.readers[result].empty()) return std::nullopt;
  const Shape& shape = graph.shape(node.outputs[0]);
  std::vector<Range> ranges(shape.size());
  bool is_narrower = false;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto size = shape[axis].as_constant();
    Range& all = ranges[axis];
    for (const int32_t n : uses.readers[result]) {
      const auto* slice = graph.nodes[static_cast<size_t>(n)].op.as<ops::Slice>();
      if (!slice) return std::nullopt;
      const auto range = size ? range_of(*slice, static_cast<int64_t>(axis), *size) : Range{};
      if (!range) return std::nullopt;
      all = all.end == 0 ? *range : Range{std::min(all.begin, range->begin), std::max(all.end, range->end)};
    }
    is_narrower = is_narrower || (size && all.end - all.begin < *size);
  }
  return is_narrower ? std::optional(ranges) : std::nullopt;
}

// Symbolic axes stay whole.
ops::IndexMap narrowed(const ops::Transpose& transpose, const Shape& shape, const std::vector<Range>& ranges) {
  ops::IndexMap map{shape, transpose.permutation, std::vector<int64_t>(shape.size(), 1), Shape(shape.size(), Dim(0))};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_constant()) continue;
    map.shape[i] = Dim(ranges[i].end - ranges[i].begin);
    map.starts[static_cast<size_t>(transpose.permutation[i])] = Dim(ranges[i].begin);
  }
  return map;
}

}  // namespace

void narrow_transposes(Graph& graph, const PassContext&) {
  std::vector<std::optional<std::vector<Range>>> found(graph.values.size());
  std::vector<std::vector<std::string>> sources(graph.values.size());
  {
    const Uses uses(graph);
    for (const Node& node : graph.nodes) {
      if (!node.op.as<ops::Transpose>()) continue;
      const auto result = static_cast<size_t>(node.outputs[0]);
      found[result] = ranges_of(graph, uses, node);
      sources[result] = node.sources;
      // A slice that alone reads it becomes part of it.
      if (found[result] && uses.single(node.outputs[0]))
        sources[result] =
            merged_sources(node.sources, graph.nodes[static_cast<size_t>(uses.readers[result][0])].sources);
    }
  }
  std::vector<ValueId> narrow(graph.values.size(), no_value);  // by the transpose's result
  Rewriter rewriter(graph);
  rewriter.replace_each([&](const Node& node) -> ValueId {
    if (const auto* slice = node.op.as<ops::Slice>()) {
      const auto x = static_cast<size_t>(node.inputs[0]);
      if (x >= narrow.size() || narrow[x] == no_value) return no_value;
      ops::Slice moved = *slice;
      bool is_all = true;
      for (size_t i = 0; i < moved.axes.size(); ++i) {
        const auto axis = static_cast<size_t>(moved.axes[i]);
        if (graph.shape(node.inputs[0])[axis].is_constant())
          moved.starts[i] = moved.starts[i] - Dim((*found[x])[axis].begin);
        is_all = is_all && moved.steps[i] == 1 && moved.counts[i] == graph.shape(narrow[x])[axis];
      }
      if (is_all && graph.type(narrow[x]) == graph.type(node.outputs[0])) return narrow[x];
      return graph.add(moved, {narrow[x]}, graph.value(node.outputs[0]).name, node.sources);
    }
    if (!node.op.as<ops::Transpose>()) return no_value;
    const auto result = static_cast<size_t>(node.outputs[0]);
    if (result >= found.size() || !found[result]) return no_value;
    const ops::IndexMap map = narrowed(*node.op.as<ops::Transpose>(), graph.shape(node.outputs[0]), *found[result]);
    narrow[result] = graph.add(map, {node.inputs[0]}, graph.value(node.outputs[0]).name, sources[result]);
    return no_value;  // what it was is dead when its slices are moved
  });
}

}  // namespace camshaft
