#include "optimize/analysis/slice_readers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/ops/attention.h"
#include "ir/ops/move.h"
#include "ir/ops/rotary_embedding.h"
#include "optimize/analysis/access_space.h"

namespace camshaft {

namespace {

// An access by axes of these sizes, moved to the columns; nullopt when it goes from one row to another other than by
// whole rows.
std::optional<Shape> moved(const Shape& access, const Shape& sizes, const Columns& columns) {
  try {
    const Dim row = floor_div(access[0], columns.width), column = access[0] - row * Dim(columns.width);
    Shape result{row * Dim(columns.joined_width) + column + Dim(columns.first)};
    Dim last = column;  // what the axes reach within a row
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto whole = divide(access[1 + i], columns.width);
      result.push_back(whole ? *whole * Dim(columns.joined_width) : access[1 + i]);
      if (!whole && !(sizes[i] == Dim(1))) last = last + (sizes[i] - Dim(1)) * access[1 + i];
    }
    if (!provably_at_most(last + Dim(1), columns.width)) return std::nullopt;
    return result;
  } catch (const Error&) {  // beyond 64 bits
    return std::nullopt;
  }
}

std::optional<ops::Attention> reading_columns(ops::Attention op, const Node& node, ValueId id, const Columns& columns) {
  for (size_t i = 0; i < 3; ++i) {  // query, key and value
    if (node.inputs[i] != id) continue;
    Shape sizes = op.outer;
    const Shape& rows = i == 0 ? op.queries : op.keys;
    sizes.insert(sizes.end(), rows.begin(), rows.end());
    sizes.emplace_back(i == 2 ? op.value_size : op.size);
    Shape& access = i == 0 ? op.query : i == 1 ? op.key : op.value;
    const auto there = moved(access, sizes, columns);
    if (!there) return std::nullopt;
    access = *there;
  }
  return op;
}

std::optional<ops::RotaryEmbedding> reading_columns(ops::RotaryEmbedding op, const Columns& columns) {
  Shape access = op.x, sizes = op.axes;
  sizes.push_back(op.shape.back());  // elements of its rows are neighbours
  access.emplace_back(1);
  const auto there = moved(access, sizes, columns);
  if (!there) return std::nullopt;
  op.x.assign(there->begin(), there->end() - 1);
  return op;
}

const ops::Concat* as_concat_of_columns(const Graph& graph, const Node& node) {
  const auto* op = node.op.as<ops::Concat>();
  return op && op->axis + 1 == static_cast<int64_t>(graph.shape(node.outputs[0]).size()) ? op : nullptr;
}

// Where operand `id` begins in the result of a concatenation of columns.
std::optional<int64_t> column_of(const Graph& graph, const Node& concat, ValueId id) {
  int64_t column = 0;
  for (const ValueId operand : concat.inputs) {
    const Dim& width = graph.shape(operand).back();
    if (operand == id) return column;
    if (!width.is_constant()) return std::nullopt;
    column += width.value();
  }
  return std::nullopt;
}

// Whether the node reads the value as some of its first `count` operands, and as no other.
bool is_among_first(size_t count, const Node& node, ValueId id) {
  const auto behind = node.inputs.begin() + static_cast<int64_t>(std::min(count, node.inputs.size()));
  return count > 0 && std::find(behind, node.inputs.end(), id) == node.inputs.end();
}

}  // namespace

bool reads_through_strides(const Node& node, ValueId id) {
  return is_among_first(node.op.traits().strided_operands, node, id);
}

std::optional<Node> reading_columns(const Node& node, ValueId id, ValueId joined, const Columns& columns) {
  Node reader = node;
  if (const auto* attention = node.op.as<ops::Attention>()) {
    const auto op = reading_columns(*attention, node, id, columns);
    if (!op) return std::nullopt;
    reader.op = *op;
  } else if (const auto* rotary = node.op.as<ops::RotaryEmbedding>()) {
    const auto op = reading_columns(*rotary, columns);
    if (!op) return std::nullopt;
    reader.op = *op;
  } else {
    throw Error(ErrorCode::internal, fmt::format("nobody knows the strides of '{}'", node.op.name()));
  }
  std::replace(reader.inputs.begin(), reader.inputs.end(), id, joined);
  return reader;
}

bool reads_slices(const Graph& graph, const Uses& uses, const Node& node, ValueId id) {
  std::vector<size_t> ranks;
  for (const ValueId operand : node.inputs) ranks.push_back(operand == no_value ? 0 : graph.shape(operand).size());
  if (is_among_first(node.op.sliced_operands(ranks), node, id)) return true;
  if (!node.op.as<ops::Reshape>()) return false;
  const ValueId seen = node.outputs[0];
  const auto& readers = uses.readers[static_cast<size_t>(seen)];
  return !uses.is_output[static_cast<size_t>(seen)] && !graph.shape(seen).empty() &&
         graph.shape(seen).back() == graph.shape(id).back() &&
         std::all_of(readers.begin(), readers.end(), [&](int32_t r) {
           const Node& reader = graph.nodes[static_cast<size_t>(r)];
           return !as_concat_of_columns(graph, reader) && reads_slices(graph, uses, reader, seen);
         });
}

std::optional<int64_t> column_in_concat(const Graph& graph, const Uses& uses, ValueId id) {
  for (const int32_t r : uses.readers[static_cast<size_t>(id)]) {
    const Node& reader = graph.nodes[static_cast<size_t>(r)];
    if (as_concat_of_columns(graph, reader)) return column_of(graph, reader, id);
  }
  return std::nullopt;
}

bool fits_concats(const Graph& graph, const Uses& uses, ValueId id, const Columns& columns) {
  const auto& readers = uses.readers[static_cast<size_t>(id)];
  return std::all_of(readers.begin(), readers.end(), [&](int32_t r) {
    const Node& reader = graph.nodes[static_cast<size_t>(r)];
    return !as_concat_of_columns(graph, reader) || (std::count(reader.inputs.begin(), reader.inputs.end(), id) == 1 &&
                                                    column_of(graph, reader, id) == columns.first &&
                                                    graph.shape(reader.outputs[0]).back() == Dim(columns.joined_width));
  });
}

}  // namespace camshaft
