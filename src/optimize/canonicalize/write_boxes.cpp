#include "optimize/canonicalize/write_boxes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "ir/symbols.h"
#include "optimize/analysis/index_box.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// An index is read and its slice written in some 7 ns (one element, Zen 4), in which 35 bytes are copied from memory.
constexpr double bytes_per_index = 35;
// In a tensor of open size, an open number of slices of fewer elements is as slow as single ones.
constexpr int64_t short_slice = 16;
constexpr int most_score_steps = 8;

// One step from a slice of x to the updates: a view of it, or something that is added.
struct Term {
  Shape shape;               // of the result
  ValueId added = no_value;  // no_value: a reshape
};

struct Write {
  IndexBox box;
  ops::ScatterKind kind = ops::ScatterKind::assign;
  bool is_mask = false;     // the box is added to, and nothing but a softmax reads that
  std::vector<Term> terms;  // of an assignment: what is added, from the slice on
};

std::optional<F> function_of(ops::ScatterKind kind) {
  switch (kind) {
    case ops::ScatterKind::add:
      return F::add;
    case ops::ScatterKind::mul:
      return F::mul;
    case ops::ScatterKind::max:
      return F::max;
    case ops::ScatterKind::min:
      return F::min;
    case ops::ScatterKind::assign:
      break;
  }
  return std::nullopt;
}

class Finder {
 public:
  Finder(const Graph& graph, const SymbolBindings& optimum) : graph_(graph), uses_(graph), optimum_(optimum) {}

  std::optional<Write> find(const Node& node) const try {
    const auto* slices = node.op.as<ops::ScatterND>();
    const auto* elements = node.op.as<ops::ScatterElements>();
    if (!slices && !elements) return std::nullopt;
    const ValueId x = node.inputs[0], indices = node.inputs[1], updates = node.inputs[2];
    const Shape &shape = graph_.shape(x), &own = graph_.shape(indices);
    const DType dtype = graph_.type(x).dtype;
    Write write{{}, slices ? slices->kind : elements->kind, false, {}};
    const bool computes = write.kind != ops::ScatterKind::assign;
    if (holds_objects(dtype) || bit_width(dtype) < 8 || (computes && !is_floating(dtype) && !is_integer(dtype)))
      return std::nullopt;
    // What running checks: of sizes that cannot be told apart the scatter stays.
    Shape expected = own;
    if (slices) {
      if (own.empty() || !own.back().is_constant() || own.back().value() > std::ssize(shape)) return std::nullopt;
      expected.pop_back();
      expected.insert(expected.end(), shape.begin() + own.back().value(), shape.end());
    }
    if (!(graph_.shape(updates) == expected)) return std::nullopt;
    auto box = slices ? box_of_slices(graph_, uses_, indices, shape)
                      : box_of_elements(graph_, uses_, indices, elements->axis, shape);
    if (!box) return std::nullopt;
    write.box = std::move(*box);
    if (write.box.counts == shape) return write;
    write.is_mask = is_mask(node, write);
    if (!write.is_mask && !pays(x, own, slices ? own.back().value() : 0, write.box)) return std::nullopt;
    return write;
  } catch (const Error&) {  // sizes beyond 64 bits
    return std::nullopt;
  }

 private:
  // The elements of a tensor when the model runs as it does most often; nullopt where that is open.
  std::optional<double> elements_of(const Shape& shape) const {
    if (!is_bound(shape, optimum_)) return std::nullopt;
    double count = 1;
    for (const Dim& d : shape) count *= static_cast<double>(d.evaluate(optimum_));
    return count;
  }

  // Copying what lies around the box takes less time than walking the indices.
  bool pays(ValueId x, const Shape& indices, int64_t depth, const IndexBox& box) const {
    // A scatter copies what it may not write into.
    const bool stays =
        graph_.is_constant(x) || uses_.producer[static_cast<size_t>(x)] < 0 || uses_.is_output[static_cast<size_t>(x)];
    if (stays) return true;
    const Shape& shape = graph_.shape(x);
    const Shape places(indices.begin(), indices.end() - (depth > 0 ? 1 : 0));
    const auto all = elements_of(shape), inside = elements_of(box.counts), count = elements_of(places);
    if (!all || !inside || !count) {
      const auto slice = depth > 0 ? elements_of(Shape(shape.begin() + depth, shape.end())) : 1;
      return !count && slice && *slice < short_slice;
    }
    return *count * bytes_per_index >= (*all - *inside) * bit_width(graph_.type(x).dtype) / 8;
  }

  bool is_mask(const Node& node, Write& write) const {
    const ValueId result = node.outputs[0];
    if (!is_floating(graph_.type(result).dtype) || !uses_.single(result)) return false;
    const Node& reader = graph_.nodes[static_cast<size_t>(uses_.readers[static_cast<size_t>(result)][0])];
    if (!reader.op.as<ops::Softmax>()) return false;
    if (write.kind == ops::ScatterKind::add) return true;
    return write.kind == ops::ScatterKind::assign && follow(node.inputs[2], node.inputs[0], write, most_score_steps) &&
           std::any_of(write.terms.begin(), write.terms.end(), [](const Term& t) { return t.added != no_value; });
  }

  // From the updates back to the box of x itself, over what is read here alone.
  bool follow(ValueId id, ValueId x, Write& write, int most) const {
    const int32_t n = uses_.producer[static_cast<size_t>(id)];
    if (n < 0 || most == 0 || !uses_.single(id)) return false;
    const Node& node = graph_.nodes[static_cast<size_t>(n)];
    const Shape& shape = graph_.shape(id);
    if (const auto* slice = node.op.as<ops::Slice>()) return node.inputs[0] == x && is_box(*slice, x, write.box);
    if (node.op.as<ops::Reshape>() && node.inputs.size() == 1) {
      if (!follow(node.inputs[0], x, write, most - 1)) return false;
      write.terms.push_back({shape});
      return true;
    }
    const auto* pointwise = node.op.as<ops::Pointwise>();
    if (!pointwise || pointwise->function != F::add || node.inputs.size() != 2) return false;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId scores = node.inputs[i], added = node.inputs[1 - i];
      if (!(graph_.shape(scores) == shape) || !follow(scores, x, write, most - 1)) continue;
      write.terms.push_back({shape, added});
      return true;
    }
    return false;
  }

  bool is_box(const ops::Slice& slice, ValueId x, const IndexBox& box) const {
    IndexBox own{Shape(graph_.shape(x).size(), Dim(0)), graph_.shape(x)};
    for (size_t i = 0; i < slice.axes.size(); ++i) {
      if (slice.steps[i] != 1) return false;
      own.starts[static_cast<size_t>(slice.axes[i])] = slice.starts[i];
      own.counts[static_cast<size_t>(slice.axes[i])] = slice.counts[i];
    }
    return own.starts == box.starts && own.counts == box.counts;
  }

  const Graph& graph_;
  const Uses uses_;
  const SymbolBindings& optimum_;
};

class Writer {
 public:
  Writer(Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  ValueId write(const Write& write, const std::vector<ValueId>& added) {
    const ValueId x = node_.inputs[0];
    ValueId updates = node_.inputs[2];
    if (write.is_mask) return add(ops::Pointwise{F::add}, {x, padded(write, added)});
    updates = shaped(updates, write.box.counts);
    if (const auto function = function_of(write.kind))
      updates = add(ops::Pointwise{*function}, {box_of(x, write.box), updates});
    return around(x, write.box, updates, 0);
  }

 private:
  ValueId add(Op op, std::vector<ValueId> inputs) {
    const std::string name = graph_.value(node_.outputs[0]).name + ".box";
    return graph_.add(std::move(op), std::move(inputs), name, node_.sources);
  }

  ValueId shaped(ValueId id, const Shape& shape) {
    return graph_.shape(id) == shape ? id : add(ops::Reshape{shape}, {id});
  }

  ValueId part_of(ValueId x, size_t axis, const Dim& start, const Dim& count) {
    return add(ops::Slice{{static_cast<int64_t>(axis)}, {start}, {count}, {1}}, {x});
  }

  bool is_whole(ValueId x, const IndexBox& box, size_t axis) const { return box.counts[axis] == graph_.shape(x)[axis]; }

  ValueId box_of(ValueId x, const IndexBox& box) {
    for (size_t d = 0; d < box.counts.size(); ++d)
      if (!is_whole(x, box, d)) x = part_of(x, d, box.starts[d], box.counts[d]);
    return x;
  }

  // x, whose axes before this one are the box' already, with the updates in the box.
  ValueId around(ValueId x, const IndexBox& box, ValueId updates, size_t axis) {
    while (axis < box.counts.size() && is_whole(x, box, axis)) ++axis;
    if (axis == box.counts.size()) return updates;
    const Dim start = box.starts[axis], count = box.counts[axis], size = graph_.shape(x)[axis];
    bool is_last = true;
    for (size_t d = axis + 1; d < box.counts.size(); ++d) is_last = is_last && is_whole(x, box, d);
    std::vector<ValueId> parts;
    if (!(start == Dim(0))) parts.push_back(part_of(x, axis, 0, start));
    parts.push_back(is_last ? updates : around(part_of(x, axis, start, count), box, updates, axis + 1));
    if (!(start + count == size)) parts.push_back(part_of(x, axis, start + count, size - start - count));
    return add(ops::Concat{static_cast<int64_t>(axis)}, std::move(parts));
  }

  // What is added to the box, with zeros around it.
  ValueId padded(const Write& write, const std::vector<ValueId>& added) {
    ValueId sum = write.terms.empty() ? node_.inputs[2] : no_value;
    for (size_t i = 0; i < write.terms.size(); ++i) {
      const Term& term = write.terms[i];
      if (term.added != no_value)
        sum = sum == no_value ? added[i] : add(ops::Pointwise{F::add}, {sum, added[i]});
      else if (sum != no_value)
        sum = shaped(sum, term.shape);
      // A view needs all elements.
      const bool is_viewed = i + 1 < write.terms.size() && write.terms[i + 1].added == no_value;
      if (sum != no_value && (is_viewed || i + 1 == write.terms.size()) && !(graph_.shape(sum) == term.shape))
        sum = add(ops::Expand{term.shape}, {sum});
    }
    sum = shaped(sum, write.box.counts);
    const Shape& shape = graph_.shape(node_.inputs[0]);
    Shape pads = write.box.starts;
    for (size_t d = 0; d < shape.size(); ++d) pads.push_back(shape[d] - write.box.starts[d] - write.box.counts[d]);
    return add(ops::Pad{ops::PadMode::constant, std::move(pads)}, {sum});
  }

  Graph& graph_;
  const Node& node_;
};

}  // namespace

void write_boxes(Graph& graph, const PassContext& context) {
  std::map<ValueId, Write> writes;
  {
    const Finder finder(graph, context.optimum);
    for (const Node& node : graph.nodes)
      if (auto write = finder.find(node)) writes.emplace(node.outputs[0], std::move(*write));
  }
  if (writes.empty()) return;
  Rewriter rewriter(graph);
  rewriter.replace_each([&](const Node& node) -> ValueId {
    const auto at = node.outputs.size() == 1 ? writes.find(node.outputs[0]) : writes.end();
    if (at == writes.end()) return no_value;
    std::vector<ValueId> added;
    for (const Term& term : at->second.terms)
      added.push_back(term.added == no_value ? no_value : rewriter.resolve(term.added));
    const ValueId result = Writer(graph, node).write(at->second, added);
    return graph.type(result) == graph.type(node.outputs[0]) ? result : no_value;
  });
}

}  // namespace camshaft
