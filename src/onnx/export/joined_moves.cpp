#include "onnx/export/joined_moves.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/ops/move.h"

namespace camshaft::onnx {

namespace {

/// The node that computes a value which nothing else reads.
std::optional<size_t> inner(const Uses& uses, ValueId id) {
  const int32_t producer = id == no_value ? -1 : uses.producer[static_cast<size_t>(id)];
  return producer >= 0 && uses.single(id) ? std::optional(static_cast<size_t>(producer)) : std::nullopt;
}

/// Where it is a reshape to a shape that is known without running.
const ops::Reshape* as_reshape(const Node& node) {
  return node.inputs.size() == 1 ? node.op.as<ops::Reshape>() : nullptr;
}

struct Part {
  size_t node;
  int64_t begin, end;
};

/// Parts of an axis of that length.
std::optional<JoinedNodes> split_into(int64_t axis, int64_t length, std::vector<Part> parts) {
  if (parts.size() < 2) return std::nullopt;
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  std::vector<int64_t> sizes;
  std::vector<std::optional<size_t>> nodes;  // none: nobody reads that part
  int64_t at = 0;
  const auto leave_out = [&](int64_t until) {
    if (until == at) return;
    sizes.push_back(until - at);
    nodes.emplace_back();
  };
  for (const Part& part : parts) {
    if (part.begin < at) return std::nullopt;
    leave_out(part.begin);
    sizes.push_back(part.end - part.begin);
    nodes.emplace_back(part.node);
    at = part.end;
  }
  leave_out(length);
  JoinedNodes joined{{}, true, [axis, sizes, nodes](ExportContext& c) {
                       std::vector<std::string> outputs;
                       for (const auto& node : nodes) outputs.push_back(node ? c.output_of(*node) : c.unused_name());
                       c.add_named("Split", {c.input(0), c.ints(sizes)}, outputs, Attributes().integer("axis", axis));
                     }};
  for (const Part& part : parts) joined.nodes.push_back(part.node);
  std::sort(joined.nodes.begin(), joined.nodes.end());
  return joined;
}

}  // namespace

std::optional<JoinedNodes> join_gather(const Graph& graph, const Uses& uses, size_t last) {
  const Node& node = graph.nodes[last];
  const auto* reshape = as_reshape(node);
  const auto first = reshape ? inner(uses, node.inputs[0]) : std::nullopt;
  const auto* slice = first ? graph.nodes[*first].op.as<ops::Slice>() : nullptr;
  if (!slice || slice->axes.size() != 1 || slice->counts[0] != Dim(1)) return std::nullopt;
  const ValueId x = graph.nodes[*first].inputs[0];
  const int64_t axis = slice->axes[0];
  Shape left = graph.shape(x);
  const Dim size = left[static_cast<size_t>(axis)];
  left.erase(left.begin() + axis);
  const auto from_front = slice->starts[0].as_constant(), from_behind = (slice->starts[0] - size).as_constant();
  if (graph.shape(node.outputs[0]) != left || (!from_front && !from_behind)) return std::nullopt;
  const int64_t index = from_front ? *from_front : *from_behind;
  return JoinedNodes{{*first, last}, false, [x, axis, index](ExportContext& c) {
                       c.result("Gather", {c.value(x), c.integer(index)}, Attributes().integer("axis", axis));
                     }};
}

std::optional<JoinedNodes> join_blocks(const Graph& graph, const Uses& uses, size_t last) {
  const Node& node = graph.nodes[last];
  const auto middle = as_reshape(node) ? inner(uses, node.inputs[0]) : std::nullopt;
  const auto* transpose = middle ? graph.nodes[*middle].op.as<ops::Transpose>() : nullptr;
  const auto first = transpose ? inner(uses, graph.nodes[*middle].inputs[0]) : std::nullopt;
  if (!first || !as_reshape(graph.nodes[*first])) return std::nullopt;
  const ValueId x = graph.nodes[*first].inputs[0];
  const Shape& from = graph.shape(x);
  const Shape& split = graph.shape(graph.nodes[*first].outputs[0]);
  const Shape& to = graph.shape(node.outputs[0]);
  if (from.size() != 4 || split.size() != 6 || to.size() != 4 || graph.type(x).dtype != DType::f32) return std::nullopt;
  struct Form {
    const char* op;
    const char* mode;  // empty: it has none
    std::vector<int64_t> permutation;
    size_t block, channels, height, width;  // axes of `split`; there is a second block size behind or between
    size_t other_block;
  };
  const Form forms[] = {{"DepthToSpace", "DCR", {0, 3, 4, 1, 5, 2}, 1, 3, 4, 5, 2},
                        {"DepthToSpace", "CRD", {0, 1, 4, 2, 5, 3}, 2, 1, 4, 5, 3},
                        {"SpaceToDepth", "", {0, 3, 5, 1, 2, 4}, 3, 1, 2, 4, 5}};
  for (const Form& form : forms) {
    const auto block = split[form.block].as_constant();
    if (transpose->permutation != form.permutation || !block || split[form.other_block] != Dim(*block)) continue;
    const Dim area = Dim(*block) * *block;
    const Shape small{split[0], split[form.channels] * area, split[form.height], split[form.width]};
    const Shape large{split[0], split[form.channels], split[form.height] * *block, split[form.width] * *block};
    const bool grows = *form.mode != '\0';
    if (from != (grows ? small : large) || to != (grows ? large : small)) continue;
    Attributes attributes = Attributes().integer("blocksize", *block);
    if (grows) attributes.text("mode", form.mode);
    return JoinedNodes{{*first, *middle, last}, false, [x, op = form.op, attributes](ExportContext& c) {
                         c.result(op, {c.value(x)}, attributes);
                       }};
  }
  return std::nullopt;
}

std::vector<JoinedNodes> join_splits(const Graph& graph, const std::function<bool(size_t node)>& is_free) {
  std::map<std::pair<ValueId, int64_t>, std::vector<Part>> parts;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto* slice = node.op.as<ops::Slice>();
    if (!slice || !is_free(n) || slice->axes.size() != 1 || slice->steps[0] != 1) continue;
    const auto start = slice->starts[0].as_constant(), count = slice->counts[0].as_constant();
    const bool is_known = graph.shape(node.inputs[0])[static_cast<size_t>(slice->axes[0])].is_constant();
    if (start && count && is_known && *count > 0)
      parts[{node.inputs[0], slice->axes[0]}].push_back({n, *start, *start + *count});
  }
  std::vector<JoinedNodes> found;
  for (auto& [key, list] : parts) {
    const int64_t length = graph.shape(key.first)[static_cast<size_t>(key.second)].value();
    if (auto split = split_into(key.second, length, list)) found.push_back(*std::move(split));
  }
  return found;
}

}  // namespace camshaft::onnx
