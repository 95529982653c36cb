#include "optimize/analysis/even_indices.h"

#include "base/error.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "optimize/analysis/access_space.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

constexpr int64_t most_indices = 1 << 20;
constexpr int most_depth = 8;
// Larger ones are no indices, and their sums could overflow.
constexpr int64_t largest_index = int64_t{1} << 40;

// Negative ones count from the end.
std::optional<EvenIndices> of_constant(const Tensor& indices, const Dim& size) {
  if (indices.size() < 1 || indices.size() > most_indices) return std::nullopt;
  std::vector<int64_t> values = indices.to_ints();
  const auto end = size.as_constant();
  for (int64_t& v : values) {
    if (v < 0 && (!end || v < -*end)) return std::nullopt;
    if (v < 0) v += *end;
    if (v > largest_index) return std::nullopt;
  }
  EvenIndices even{Dim(values[0]), std::vector<int64_t>(indices.dims().size(), 0)};
  int64_t inner = 1;
  for (size_t d = even.steps.size(); d-- > 0; inner *= indices.dims()[d]) {
    if (indices.dims()[d] > 1) even.steps[d] = values[static_cast<size_t>(inner)] - values[0];
    if (even.steps[d] < 0) return std::nullopt;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t expected = values[0];
    for (size_t d = even.steps.size(); d-- > 0; rest /= indices.dims()[d])
      expected += rest % indices.dims()[d] * even.steps[d];
    if (values[i] != expected) return std::nullopt;
  }
  return even;
}

class Follower {
 public:
  Follower(const Graph& graph, const Uses& uses, const Dim& size) : graph_(graph), uses_(uses), size_(size) {}

  std::optional<EvenIndices> follow(ValueId id, int depth = 0) const {
    if (is_readable_constant(graph_, id)) {
      fix_numbers(graph_, id, "indices");
      return of_constant(*graph_.value(id).constant, size_);
    }
    const int32_t n = uses_.producer[static_cast<size_t>(id)];
    if (n < 0 || depth == most_depth) return std::nullopt;
    const Node& node = graph_.nodes[static_cast<size_t>(n)];
    if (node.op.as<ops::Range>()) return of_range(node);
    if (node.op.as<ops::Reshape>() && node.inputs.size() == 1) return of_reshape(node, depth);
    if (node.op.as<ops::Expand>() && node.inputs.size() == 1) return of_expand(node, depth);
    const auto* pointwise = node.op.as<ops::Pointwise>();
    if (pointwise && pointwise->function == ScalarFunction::add) return of_sum(node, depth);
    return std::nullopt;
  }

 private:
  std::optional<Dim> scalar(ValueId id) const {
    const auto& content = graph_.value(id).content;
    if (content && content->size() == 1) return content->front();
    if (!is_readable_constant(graph_, id) || graph_.value(id).constant->size() != 1) return std::nullopt;
    fix_numbers(graph_, id, "indices");
    return Dim(graph_.value(id).constant->to_ints()[0]);
  }

  std::optional<EvenIndices> of_range(const Node& node) const {
    if (!is_integer(graph_.type(node.outputs[0]).dtype)) return std::nullopt;
    const auto start = scalar(node.inputs[0]), step = scalar(node.inputs[2]);
    if (!start || !step || !step->is_constant() || step->value() < 1) return std::nullopt;
    return EvenIndices{*start, {step->value()}};
  }

  // Axes of one element may come and go.
  std::optional<EvenIndices> of_reshape(const Node& node, int depth) const {
    const auto even = follow(node.inputs[0], depth + 1);
    if (!even) return std::nullopt;
    const Shape &from = graph_.shape(node.inputs[0]), &to = graph_.shape(node.outputs[0]);
    EvenIndices moved{even->first, std::vector<int64_t>(to.size(), 0)};
    size_t d = 0;
    const auto skip_ones = [&] {
      while (d < from.size() && from[d] == Dim(1)) ++d;
    };
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i] == Dim(1)) continue;
      skip_ones();
      if (d == from.size() || !(from[d] == to[i])) return std::nullopt;
      moved.steps[i] = even->steps[d++];
    }
    skip_ones();
    return d == from.size() ? std::optional(moved) : std::nullopt;
  }

  std::optional<EvenIndices> of_expand(const Node& node, int depth) const {
    const auto even = follow(node.inputs[0], depth + 1);
    if (!even) return std::nullopt;
    const Shape &from = graph_.shape(node.inputs[0]), &to = graph_.shape(node.outputs[0]);
    EvenIndices repeated{even->first, std::vector<int64_t>(to.size(), 0)};
    const size_t lead = to.size() - from.size();
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d] == Dim(1)) continue;
      if (!(from[d] == to[lead + d])) return std::nullopt;
      repeated.steps[lead + d] = even->steps[d];
    }
    return repeated;
  }

  std::optional<EvenIndices> of_sum(const Node& node, int depth) const {
    const Shape& shape = graph_.shape(node.outputs[0]);
    EvenIndices sum{0, std::vector<int64_t>(shape.size(), 0)};
    for (const ValueId id : node.inputs) {
      const auto part = follow(id, depth + 1);
      if (!part) return std::nullopt;
      const Shape& own = graph_.shape(id);
      const size_t lead = shape.size() - own.size();
      for (size_t d = 0; d < own.size(); ++d) {
        if (own[d] == Dim(1)) continue;
        if (!(own[d] == shape[lead + d])) return std::nullopt;
        if (__builtin_add_overflow(sum.steps[lead + d], part->steps[d], &sum.steps[lead + d])) return std::nullopt;
      }
      sum.first = sum.first + part->first;
    }
    return sum;
  }

  const Graph& graph_;
  const Uses& uses_;
  const Dim& size_;
};

// No index is outside of the axis.
std::optional<EvenIndices> within(std::optional<EvenIndices> even, const Shape& shape, const Dim& size) {
  if (!even) return std::nullopt;
  Dim last = even->first;
  for (size_t d = 0; d < shape.size(); ++d) last = last + Dim(even->steps[d]) * (shape[d] - 1);
  return provably_at_most(0, even->first) && provably_at_most(last + 1, size) ? std::move(even) : std::nullopt;
}

}  // namespace

std::optional<EvenIndices> even_indices(const Graph& graph, const Uses& uses, ValueId indices, const Dim& size) try {
  return within(Follower(graph, uses, size).follow(indices), graph.shape(indices), size);
} catch (const Error&) {  // beyond 64 bits
  return std::nullopt;
}

std::optional<EvenIndices> even_indices(const Tensor& indices, const Dim& size) try {
  return within(of_constant(indices, size), Shape(indices.dims().begin(), indices.dims().end()), size);
} catch (const Error&) {  // beyond 64 bits
  return std::nullopt;
}

}  // namespace camshaft
