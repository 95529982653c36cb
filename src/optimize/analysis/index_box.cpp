#include "optimize/analysis/index_box.h"

#include <utility>
#include <vector>

#include "ir/ops/move.h"
#include "ir/replaceable.h"
#include "optimize/analysis/access_space.h"
#include "optimize/analysis/even_indices.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

constexpr int64_t most_numbers = 1 << 22;  // of constant indices that are looked at

// One column of indices[..., q] that are constant.
Tensor column_of(const Tensor& indices, size_t column) {
  const std::vector<int64_t> all = indices.to_ints();
  const auto columns = static_cast<size_t>(indices.dims().back());
  std::vector<int64_t> one;
  for (size_t i = column; i < all.size(); i += columns) one.push_back(all[i]);
  return Tensor::of(DType::i64, {indices.dims().begin(), indices.dims().end() - 1}, one);
}

// The columns of indices[..., q], as far as they go evenly along one axis each.
std::optional<std::vector<EvenIndices>> even_columns(const Graph& graph, const Uses& uses, ValueId indices,
                                                     const Shape& shape) {
  const Shape& own = graph.shape(indices);
  const auto count = own.empty() ? std::nullopt : own.back().as_constant();
  if (!count || *count > std::ssize(shape)) return std::nullopt;
  std::vector<EvenIndices> columns;
  // By constants, whole ones or columns side by side as exporters write them.
  const auto take = [&](ValueId id) {
    const int64_t width = graph.shape(id).back().as_constant().value_or(-1);
    if (width < 0 || std::ssize(columns) + width > *count) return false;
    if (is_readable_constant(graph, id)) {
      const Tensor& tensor = *graph.value(id).constant;
      if (tensor.size() > most_numbers) return false;
      fix_numbers(graph, id, "indices of a scatter");
      for (int64_t c = 0; c < width; ++c) {
        auto even = even_indices(column_of(tensor, static_cast<size_t>(c)), shape[columns.size()]);
        if (!even) return false;
        columns.push_back(std::move(*even));
      }
      return true;
    }
    auto even = width == 1 ? even_indices(graph, uses, id, shape[columns.size()]) : std::nullopt;
    if (!even) return false;
    even->steps.pop_back();  // of the axis of one element
    columns.push_back(std::move(*even));
    return true;
  };
  const int32_t n = uses.producer[static_cast<size_t>(indices)];
  const Node* node = n < 0 ? nullptr : &graph.nodes[static_cast<size_t>(n)];
  const auto* concat = node ? node->op.as<ops::Concat>() : nullptr;
  if (concat && concat->axis + 1 == std::ssize(own)) {
    for (const ValueId part : node->inputs)
      if (!take(part)) return std::nullopt;
  } else if (!take(indices)) {
    return std::nullopt;
  }
  return std::ssize(columns) == *count ? std::optional(std::move(columns)) : std::nullopt;
}

}  // namespace

std::optional<IndexBox> box_of_slices(const Graph& graph, const Uses& uses, ValueId indices, const Shape& shape) {
  const auto columns = even_columns(graph, uses, indices, shape);
  if (!columns) return std::nullopt;
  const Shape& own = graph.shape(indices);
  IndexBox box{Shape(shape.size(), Dim(0)), shape};
  size_t next = 0;  // the first axis of the indices that no column goes along yet
  for (size_t c = 0; c < columns->size(); ++c) {
    const EvenIndices& even = (*columns)[c];
    box.starts[c] = even.first;
    box.counts[c] = 1;
    for (size_t a = 0; a < even.steps.size(); ++a) {
      if (even.steps[a] == 0 || own[a] == Dim(1)) continue;
      if (even.steps[a] != 1 || a < next || !(box.counts[c] == Dim(1))) return std::nullopt;
      // What lies between would repeat each slice.
      for (; next < a; ++next)
        if (!(own[next] == Dim(1))) return std::nullopt;
      box.counts[c] = own[a];
      next = a + 1;
    }
  }
  for (; next + 1 < own.size(); ++next)
    if (!(own[next] == Dim(1))) return std::nullopt;
  return box;
}

std::optional<IndexBox> box_of_elements(const Graph& graph, const Uses& uses, ValueId indices, int64_t axis,
                                        const Shape& shape) {
  const Shape& own = graph.shape(indices);
  if (own.size() != shape.size()) return std::nullopt;
  const auto along = static_cast<size_t>(axis);
  for (size_t d = 0; d < shape.size(); ++d)
    if (d != along && !provably_at_most(own[d], shape[d])) return std::nullopt;
  const auto even = even_indices(graph, uses, indices, shape[along]);
  if (!even) return std::nullopt;
  for (size_t d = 0; d < shape.size(); ++d)
    if (even->steps[d] != (d == along ? 1 : 0) && !(own[d] == Dim(1))) return std::nullopt;
  IndexBox box{Shape(shape.size(), Dim(0)), own};
  box.starts[along] = even->first;
  return box;
}

}  // namespace camshaft
