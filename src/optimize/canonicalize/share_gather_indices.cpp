#include "optimize/canonicalize/share_gather_indices.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/access_space.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

constexpr int most_index_depth = 16;

// What all elements of a tensor of integers are known to be at least and at most.
struct Bounds {
  std::optional<Dim> low, high;
};

class Sharing {
 public:
  explicit Sharing(Graph& graph) : graph_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node) { return shared(node); });
  }

 private:
  ValueId shared(const Node& node) try {
    const auto* op = node.op.as<ops::GatherElements>();
    if (!op) return no_value;
    const ValueId x = node.inputs[0], indices = node.inputs[1];
    const Shape in = graph_.shape(x), out = graph_.shape(indices);
    const size_t rank = in.size();
    if (rank < 2 || op->axis != static_cast<int64_t>(rank) - 1) return no_value;
    // The axis itself, and one before it along which the indices may differ.
    const size_t kept = std::min<size_t>(2, rank - 1), lead = rank - kept;
    for (size_t d = 0; d < lead; ++d)
      if (!(in[d] == out[d])) return no_value;
    if (std::all_of(out.begin(), out.begin() + static_cast<int64_t>(lead), [](const Dim& d) { return d == Dim(1); }))
      return no_value;
    const Bounds bounds = bounds_of(indices, 0);
    if (!bounds.low || !bounds.high || !provably_at_most(0, *bounds.low) ||
        !provably_at_most(*bounds.high + Dim(1), in.back()))
      return no_value;
    ValueId once = without_repeats(indices, lead, node);
    if (once == no_value) return no_value;
    const std::string name = graph_.value(node.outputs[0]).name;  // a copy: adding nodes moves values
    if (kept == 1) return graph_.add(ops::Gather{op->axis}, {x, once}, name, node.sources);

    constexpr DType dtype = DType::i64;  // an image of rows may have more elements than i32 counts
    if (graph_.type(once).dtype != dtype) once = add(ops::Cast{dtype}, {once}, node);
    const Dim rows = out[rank - 2], size = in.back();
    ValueId first =
        add(ops::Range{}, {number(dtype, 0, node), number(dtype, rows, node), number(dtype, 1, node)}, node);
    first = add(ops::Pointwise{F::mul}, {first, number(dtype, size, node)}, node);
    first = add(ops::Reshape{{rows, Dim(1)}}, {first}, node);
    const ValueId places = add(ops::Pointwise{F::add}, {first, once}, node);
    Shape joined(in.begin(), in.end() - 2);
    joined.push_back(in[rank - 2] * size);
    const ValueId flat = add(ops::Reshape{std::move(joined)}, {x}, node);
    return graph_.add(ops::Gather{static_cast<int64_t>(lead)}, {flat, places}, name, node.sources);
  } catch (const Error&) {  // sizes beyond 64 bits
    return no_value;
  }

  ValueId add(Op op, std::vector<ValueId> inputs, const Node& node) {
    return graph_.add(std::move(op), std::move(inputs), graph_.value(node.outputs[0]).name + ".place", node.sources);
  }
  // A size as a scalar.
  ValueId number(DType dtype, const Dim& size, const Node& node) {
    if (const auto n = size.as_constant()) return add_scalar(graph_, dtype, static_cast<double>(*n));
    return add(ops::DimsTensor{{size}, dtype, true}, {}, node);
  }

  // The indices of the axes from `lead` on, if they are the same for all positions of those before.
  ValueId without_repeats(ValueId indices, size_t lead, const Node& node) {
    const Shape shape = graph_.shape(indices);
    Shape kept(shape.begin() + static_cast<int64_t>(lead), shape.end());
    if (is_readable_constant(graph_, indices)) {
      fix_numbers(graph_, indices, "indices of a gather");
      const Tensor& t = *graph_.value(indices).constant;
      size_t bytes = static_cast<size_t>(bit_width(t.dtype()) / 8);
      for (const Dim& d : kept) bytes *= static_cast<size_t>(d.value());
      for (size_t at = bytes; at < t.bytes(); at += bytes)
        if (!std::equal(t.data() + at, t.data() + at + bytes, t.data())) return no_value;
      ops::Slice first;
      for (size_t d = 0; d < lead; ++d) {
        first.axes.push_back(static_cast<int64_t>(d));
        first.starts.emplace_back(0);
        first.counts.emplace_back(1);
        first.steps.push_back(1);
      }
      return add(ops::Reshape{std::move(kept)}, {add(std::move(first), {indices}, node)}, node);
    }
    const auto* expand = producers_.op<ops::Expand>(indices);
    if (!expand) return no_value;
    const ValueId x = producers_.find(indices)->inputs[0];
    const Shape own = graph_.shape(x);
    for (size_t i = 0; i < own.size(); ++i) {
      const size_t d = shape.size() - own.size() + i;
      if (d < lead ? !(own[i] == Dim(1)) : !(own[i] == shape[d])) return no_value;
    }
    if (own.size() < kept.size()) return no_value;
    return own.size() == kept.size() ? x : add(ops::Reshape{std::move(kept)}, {x}, node);
  }

  Bounds bounds_of(ValueId id, int depth) {
    Bounds bounds;
    if (!is_integer(graph_.type(id).dtype)) return bounds;
    if (is_readable_constant(graph_, id)) {
      fix_numbers(graph_, id, "indices of a gather");
      const std::vector<int64_t> values = graph_.value(id).constant->to_ints();
      if (values.empty()) return bounds;
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      return {Dim(*low), Dim(*high)};
    }
    const auto& content = graph_.value(id).content;
    if (content && content->size() == 1) return {content->front(), content->front()};
    const Node* node = producers_.find(id);
    if (!node || depth == most_index_depth || node->outputs.size() != 1) return bounds;
    const Op op = node->op;
    const std::vector<ValueId> inputs = node->inputs;
    if (op.as<ops::Reshape>() || op.as<ops::Expand>() || op.as<ops::Slice>() || op.as<ops::Transpose>() ||
        op.as<ops::Gather>())
      return bounds_of(inputs[0], depth + 1);
    const auto* pointwise = op.as<ops::Pointwise>();
    if (!pointwise || (pointwise->function != F::min && pointwise->function != F::max)) return bounds;
    // One bound of either is a bound of both on the side that the function keeps to; the other takes both of them.
    const Bounds a = bounds_of(inputs[0], depth + 1), b = bounds_of(inputs[1], depth + 1);
    if (pointwise->function == F::max) {
      bounds.low = a.low && b.low ? std::optional(max(*a.low, *b.low)) : a.low ? a.low : b.low;
      if (a.high && b.high) bounds.high = max(*a.high, *b.high);
    } else {
      bounds.high = a.high && b.high ? std::optional(min(*a.high, *b.high)) : a.high ? a.high : b.high;
      if (a.low && b.low) bounds.low = min(*a.low, *b.low);
    }
    return bounds;
  }

  Graph& graph_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void share_gather_indices(Graph& graph, const PassContext&) {
  Sharing(graph).run();
}

}  // namespace camshaft
