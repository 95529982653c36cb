#include "optimize/canonicalize/simplify_moves.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

bool is_one(const Dim& d) {
  return d == Dim(1);
}

// The axes that are not of size 1 keep their order.
bool moves_only_ones(const ops::Transpose& transpose, const Shape& shape) {
  int64_t last = -1;
  for (const int64_t axis : transpose.permutation) {
    if (is_one(shape[static_cast<size_t>(axis)])) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

std::vector<int64_t> compose(const std::vector<int64_t>& first, const std::vector<int64_t>& second) {
  std::vector<int64_t> both;
  for (const int64_t axis : second) both.push_back(first[static_cast<size_t>(axis)]);
  return both;
}

bool is_identity(const ops::Slice& slice, const Shape& shape) {
  for (size_t i = 0; i < slice.axes.size(); ++i)
    if (!(slice.starts[i] == Dim(0)) || slice.steps[i] != 1 ||
        !(slice.counts[i] == shape[static_cast<size_t>(slice.axes[i])]))
      return false;
  return true;
}

// x[first][second]; nullopt beyond 64 bits, where one element is taken by steps of any size.
std::optional<ops::Slice> compose(const ops::Slice& first, const ops::Slice& second) try {
  ops::Slice both = first;
  for (size_t i = 0; i < second.axes.size(); ++i) {
    const auto at = std::find(both.axes.begin(), both.axes.end(), second.axes[i]);
    if (at == both.axes.end()) {
      both.axes.push_back(second.axes[i]);
      both.starts.push_back(second.starts[i]);
      both.counts.push_back(second.counts[i]);
      both.steps.push_back(second.steps[i]);
    } else {
      const auto a = static_cast<size_t>(at - both.axes.begin());
      both.starts[a] = both.starts[a] + second.starts[i] * Dim(both.steps[a]);
      both.counts[a] = second.counts[i];
      if (__builtin_mul_overflow(both.steps[a], second.steps[i], &both.steps[a])) return std::nullopt;
    }
  }
  return both;
} catch (const Error&) {
  return std::nullopt;
}

bool keeps_elements(ops::ReduceKind kind) {
  return kind != ops::ReduceKind::sum_squares && kind != ops::ReduceKind::sum_abs;
}

class MoveSimplifier {
 public:
  MoveSimplifier(Graph& graph, ThreadPool& pool)
      : graph_(graph), pool_(pool), uses_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    for (Node& node : rewriter_.nodes()) {
      rewriter_.resolve(node);
      if (node.outputs.size() == 1) {
        if (const ValueId replacement = simplify(node); replacement != no_value) {
          rewriter_.replace(node.outputs[0], replacement);
          continue;
        }
      }
      rewriter_.keep(std::move(node));
    }
    rewriter_.finish();
    remove_dead(graph_);  // expands that nobody reads any more
  }

 private:
  ValueId simplify(Node& node) {
    if (node.op.as<ops::Cast>()) {
      const ValueId same = unless_changed(node);
      return same != no_value ? same : expand_behind(node);
    }
    if (const auto* op = node.op.as<ops::Reshape>()) return simplify_reshape(*op, node);
    if (const auto* op = node.op.as<ops::Transpose>()) return simplify_transpose(*op, node);
    if (const auto* op = node.op.as<ops::Slice>()) return simplify_slice(*op, node);
    if (const auto* op = node.op.as<ops::Concat>()) return simplify_concat(*op, node);
    if (const auto* op = node.op.as<ops::Reduce>()) return simplify_reduce(*op, node);
    if (const auto* op = node.op.as<ops::Gather>()) return simplify_gather(*op, node);
    if (node.op.as<ops::Expand>()) return node.inputs.size() == 1 ? unless_changed(node) : no_value;
    if (node.op.as<ops::Pointwise>()) {
      read_through_expands(node);
      return expand_behind(node);
    }
    if (const auto* op = node.op.as<ops::Pad>()) {
      const bool nothing = std::all_of(op->pads.begin(), op->pads.end(), [](const Dim& d) { return d == Dim(0); });
      return nothing ? node.inputs[0] : no_value;
    }
    return no_value;
  }

  // For operators that are the identity when type and shape stay the same.
  ValueId unless_changed(const Node& node) const {
    return graph_.type(node.inputs[0]) == graph_.type(node.outputs[0]) ? node.inputs[0] : no_value;
  }

  ValueId add(Op op, std::vector<ValueId> inputs, const Node& like) {
    const std::string name = graph_.value(like.outputs[0]).name;
    return graph_.add(std::move(op), std::move(inputs), name, like.sources);
  }

  ValueId simplify_reshape(const ops::Reshape& reshape, const Node& node) {
    if (node.inputs.size() != 1) return no_value;
    if (const ValueId same = unless_changed(node); same != no_value) return same;
    const Node* before = producers_.find(node.inputs[0]);
    if (!before) return no_value;
    if (const ValueId kept = keep_reduced_dims(node); kept != no_value) return kept;
    if (const ValueId hoisted = reshape_operand_instead(reshape, node); hoisted != no_value) return hoisted;
    before = producers_.find(node.inputs[0]);
    if (!before->op.as<ops::Reshape>() || before->inputs.size() != 1) return no_value;
    const ValueId x = before->inputs[0];
    if (graph_.type(x) == graph_.type(node.outputs[0])) return x;
    return add(reshape, {x}, node);
  }

  // A reduction whose axes come back as axes of size 1, as array libraries without keep_dims write it, has kept them.
  ValueId keep_reduced_dims(const Node& node) {
    const auto* before = producers_.op<ops::Reduce>(node.inputs[0]);
    if (!before || before->keep_dims || use_count(node.inputs[0]) != 1) return no_value;
    ops::Reduce reduce = *before;
    reduce.keep_dims = true;
    const ValueId x = producers_.find(node.inputs[0])->inputs[0];
    Shape kept = graph_.shape(x);
    for (const int64_t axis : reduce.axes) kept[static_cast<size_t>(axis)] = Dim(1);
    return kept == graph_.shape(node.outputs[0]) ? add(std::move(reduce), {x}, node) : no_value;
  }

  // reshape(x · w + b) = reshape(x) · w + b where the last axis stays: so that what follows in the new shape (the
  // residual of a transformer whose exporter has flattened tokens) can join the product's region. Not of a last axis of
  // no elements, which leaves the others open.
  ValueId reshape_operand_instead(const ops::Reshape& reshape, const Node& node) {
    std::vector<Node> chain;  // from the reshape back to the product
    for (ValueId id = node.inputs[0]; chain.empty() || !chain.back().op.as<ops::MatMul>();
         id = chain.back().inputs[0]) {
      const Shape& shape = graph_.shape(id);
      const Node* before = producers_.find(id);
      if (!before || use_count(id) != 1 || shape.size() < 2 || reshape.shape.size() < 2 ||
          !(shape.back() == reshape.shape.back()) || shape.back().lower_bound().value_or(0) < 1)
        return no_value;
      const bool is_product = before->op.as<ops::MatMul>() && !before->op.as<ops::MatMul>()->transpose_a &&
                              graph_.is_constant(before->inputs[1]) && graph_.shape(before->inputs[1]).size() == 2;
      const bool is_bias = before->op.as<ops::Pointwise>() && before->inputs.size() == 2 &&
                           graph_.is_constant(before->inputs[1]) && graph_.shape(before->inputs[1]).size() <= 1 &&
                           graph_.type(before->inputs[0]) == graph_.type(id);
      if (!is_product && !is_bias) return no_value;
      chain.push_back(*before);
    }
    Shape shape = reshape.shape;
    ValueId x = chain.back().inputs[0];
    shape.back() = graph_.shape(x).back();
    x = add(ops::Reshape{shape}, {x}, node);
    for (size_t i = chain.size(); i-- > 0;) {
      x = add(chain[i].op, {x, chain[i].inputs[1]}, chain[i]);
      counts_[x] = 1;
    }
    counts_[x] = use_count(node.outputs[0]);
    return x;
  }

  // Readers of an old value, or of one that this pass put in the place of old ones.
  size_t use_count(ValueId id) const {
    if (const auto at = counts_.find(id); at != counts_.end()) return at->second;
    const auto i = static_cast<size_t>(id);
    if (i >= uses_.readers.size()) return 0;
    return uses_.readers[i].size() + (uses_.is_output[i] ? 1 : 0);
  }

  ValueId simplify_transpose(const ops::Transpose& transpose, const Node& node) {
    ValueId x = node.inputs[0];
    ops::Transpose merged = transpose;
    if (const auto* before = producers_.op<ops::Transpose>(x)) {
      merged.permutation = compose(before->permutation, transpose.permutation);
      x = producers_.find(x)->inputs[0];
    }
    if (std::is_sorted(merged.permutation.begin(), merged.permutation.end())) return x;
    if (moves_only_ones(merged, graph_.shape(x))) {
      // On to what a reshape before it read: this pass does not come back to the node it adds.
      const Node* before = producers_.find(x);
      if (before && before->op.as<ops::Reshape>() && before->inputs.size() == 1) x = before->inputs[0];
      if (graph_.type(x) == graph_.type(node.outputs[0])) return x;
      return add(ops::Reshape{graph_.shape(node.outputs[0])}, {x}, node);
    }
    return x == node.inputs[0] ? no_value : add(merged, {x}, node);
  }

  ValueId simplify_slice(const ops::Slice& slice, const Node& node) {
    ValueId x = node.inputs[0];
    if (is_identity(slice, graph_.shape(x))) return x;
    const auto* before = producers_.op<ops::Slice>(x);
    if (!before) return no_value;
    const std::optional<ops::Slice> merged = compose(*before, slice);
    if (!merged) return no_value;
    x = producers_.find(x)->inputs[0];
    return is_identity(*merged, graph_.shape(x)) ? x : add(*merged, {x}, node);
  }

  ValueId simplify_concat(const ops::Concat& concat, Node& node) {
    const auto axis = static_cast<size_t>(concat.axis);
    std::vector<ValueId> filled;
    for (const ValueId id : node.inputs)
      if (!(graph_.shape(id)[axis] == Dim(0))) filled.push_back(id);
    // Of nothing but empty tensors, one is as good as all.
    if (filled.empty()) filled.push_back(node.inputs[0]);
    if (filled.size() == 1 && graph_.type(filled[0]) == graph_.type(node.outputs[0])) return filled[0];
    if (filled.size() == node.inputs.size()) return no_value;
    const ValueId shorter = add(concat, filled, node);
    // Empty operands may have been the ones that gave another axis its known size.
    if (graph_.type(shorter) == graph_.type(node.outputs[0])) return shorter;
    graph_.nodes.pop_back();
    return no_value;
  }

  // The part of an axis of `size` elements that the indices take, where they are evenly spaced and in range.
  std::optional<ops::Slice> taken_by(ValueId indices, int64_t axis, int64_t size) const {
    std::vector<int64_t> values;
    constexpr int64_t most = 1 << 20;
    if (is_readable_constant(graph_, indices)) {
      fix_numbers(graph_, indices, "indices of a gather");
      const Tensor& tensor = *graph_.value(indices).constant;
      if (tensor.size() < 1 || tensor.size() > most) return std::nullopt;
      values = tensor.to_ints();
    } else {
      const auto& content = graph_.value(indices).content;
      const auto index = content && content->size() == 1 ? content->front().as_constant() : std::nullopt;
      if (!index || !graph_.shape(indices).empty()) return std::nullopt;
      values = {*index};
    }
    for (int64_t& v : values) {
      if (v < -size || v >= size) return std::nullopt;
      if (v < 0) v += size;
    }
    const int64_t step = values.size() > 1 ? values[1] - values[0] : 1;
    for (size_t i = 1; i < values.size(); ++i)
      if (step < 1 || values[i] - values[i - 1] != step) return std::nullopt;
    return ops::Slice{{axis}, {values[0]}, {static_cast<int64_t>(values.size())}, {step}};
  }

  // One row many times, as of the kind of token of which a text has one only, is one row that is repeated.
  ValueId repeat_one(const ops::Gather& gather, const Node& node) {
    const Node* expand = producers_.find(node.inputs[1]);
    const bool is_expanded = expand && expand->op.as<ops::Expand>() && expand->inputs.size() == 1;
    const ValueId indices = is_expanded ? expand->inputs[0] : node.inputs[1];
    const auto index = uniform_constant(graph_, indices);
    const size_t rank = graph_.shape(node.inputs[1]).size();
    const Shape wanted = graph_.shape(node.outputs[0]);
    if (!index || (!is_expanded && graph_.value(indices).constant->size() < 2)) return no_value;
    const Constant all = derive_reshaped(graph_.constant(indices), {graph_.value(indices).constant->size()}, pool_);
    const Constant first = derive(ops::Gather{0}, {all, literal(Tensor::scalar(DType::i64, 0))}, pool_);
    const ValueId one = graph_.add_constant("index", derive(ops::Cast{.to = DType::i64}, {first}, pool_));
    const ValueId row = add(gather, {node.inputs[0], one}, node);
    Shape shape = wanted;
    for (size_t i = 0; i < rank; ++i) shape[static_cast<size_t>(gather.axis) + i] = Dim(1);
    return add(ops::Expand{wanted}, {add(ops::Reshape{shape}, {row}, node)}, node);
  }

  ValueId simplify_gather(const ops::Gather& gather, const Node& node) {
    const ValueId x = node.inputs[0];
    const Shape& shape = graph_.shape(x);
    // A constant size tells that indices are in range; of others the slice would not check it.
    const auto size = shape[static_cast<size_t>(gather.axis)].as_constant();
    const auto slice = size ? taken_by(node.inputs[1], gather.axis, *size) : std::nullopt;
    if (!slice) return repeat_one(gather, node);
    const ValueId taken = is_identity(*slice, shape) ? x : add(*slice, {x}, node);
    if (graph_.type(taken) == graph_.type(node.outputs[0])) return taken;
    return add(ops::Reshape{graph_.shape(node.outputs[0])}, {taken}, node);
  }

  ValueId simplify_reduce(const ops::Reduce& reduce, const Node& node) {
    const Shape& shape = graph_.shape(node.inputs[0]);
    if (!keeps_elements(reduce.kind) || graph_.type(node.outputs[0]).dtype != graph_.type(node.inputs[0]).dtype ||
        !std::all_of(reduce.axes.begin(), reduce.axes.end(),
                     [&](int64_t axis) { return is_one(shape[static_cast<size_t>(axis)]); }))
      return no_value;
    if (const ValueId same = unless_changed(node); same != no_value) return same;
    return add(ops::Reshape{graph_.shape(node.outputs[0])}, {node.inputs[0]}, node);
  }

  void read_through_expands(Node& node) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Node* before = producers_.find(node.inputs[i]);
      // One whose shape is data also binds the sizes that others use.
      if (!before || !before->op.as<ops::Expand>() || before->inputs.size() != 1) continue;
      Node trial{node.op, node.inputs, node.outputs, {}, node.sources};
      trial.inputs[i] = before->inputs[0];
      if (infer(graph_, trial)[0].type != graph_.type(node.outputs[0])) continue;
      node.inputs = std::move(trial.inputs);
    }
  }

  // What has only expanded operands is computed before it is expanded: of a mask that lets everything pass one element
  // remains, which is known then.
  ValueId expand_behind(const Node& node) {
    Node small{node.op, node.inputs, node.outputs, {}, node.sources};
    bool is_smaller = false;
    for (ValueId& id : small.inputs) {
      const Node* before = producers_.find(id);
      if (!before || !before->op.as<ops::Expand>() || before->inputs.size() != 1) continue;
      id = before->inputs[0];
      is_smaller = true;
    }
    const Shape wanted = graph_.shape(node.outputs[0]);
    if (!is_smaller || infer(graph_, small)[0].type.shape == wanted) return no_value;
    return add(ops::Expand{wanted}, {add(small.op, small.inputs, node)}, node);
  }

  Graph& graph_;
  ThreadPool& pool_;
  Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
  std::unordered_map<ValueId, size_t> counts_;
};

}  // namespace

void simplify_moves(Graph& graph, const PassContext& context) {
  MoveSimplifier(graph, context.pool).run();
}

}  // namespace camshaft
