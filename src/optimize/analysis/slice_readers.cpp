#include "optimize/analysis/slice_readers.h"

#include <algorithm>

#include "ir/ops/attention.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/resize.h"
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

}  // namespace

bool reads_through_strides(const Node& node, ValueId id) {
  const size_t operands = node.op.as<ops::Attention>() ? 3 : node.op.as<ops::RotaryEmbedding>() ? 1 : 0;
  const auto behind = node.inputs.begin() + static_cast<int64_t>(std::min(operands, node.inputs.size()));
  return operands > 0 && std::find(behind, node.inputs.end(), id) == node.inputs.end();
}

std::optional<Node> reading_columns(const Node& node, ValueId id, ValueId joined, const Columns& columns) {
  Node reader = node;
  if (const auto* attention = node.op.as<ops::Attention>()) {
    const auto op = reading_columns(*attention, node, id, columns);
    if (!op) return std::nullopt;
    reader.op = *op;
  } else {
    const auto op = reading_columns(*node.op.as<ops::RotaryEmbedding>(), columns);
    if (!op) return std::nullopt;
    reader.op = *op;
  }
  std::replace(reader.inputs.begin(), reader.inputs.end(), id, joined);
  return reader;
}

bool reads_slices(const Graph& graph, const Uses& uses, const Node& node, ValueId id) {
  const bool first_only = node.inputs[0] == id && std::count(node.inputs.begin(), node.inputs.end(), id) == 1;
  const auto last_axis = static_cast<int64_t>(graph.shape(id).size()) - 1;
  // Depthwise convolutions would otherwise be one kernel with what comes before (chain_convolutions).
  if (const auto* op = node.op.as<ops::Conv>()) return first_only && op->channels_last && op->groups == 1;
  if (const auto* op = node.op.as<ops::MatMul>())
    return first_only && !op->transpose_a && graph.shape(node.inputs[1]).size() == 2;
  if (const auto* op = node.op.as<ops::Pool>()) return op->channels_last;
  if (const auto* op = node.op.as<ops::Resize>()) return op->axes.empty() || op->axes.back() != last_axis;
  if (node.op.as<ops::Pointwise>() || node.op.as<ops::Transpose>() || as_concat_of_columns(graph, node)) return true;
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
