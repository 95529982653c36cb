#include "optimize/match_attention.h"

#include <algorithm>

#include "ops/contract.h"
#include "ops/move.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "optimize/access_space.h"
#include "optimize/axis_targets.h"
#include "optimize/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;
using Target = AccessSpace::Target;

enum Role : int { outer_axis, query_axis, key_axis, depth_axis, value_axis };

bool is_view(const Node& node) {
  return node.op.as<ops::Reshape>() && node.inputs.size() == 1;
}

class Matcher {
 public:
  Matcher(const Graph& graph, const Uses& uses, int32_t softmax) : graph_(graph), uses_(uses), softmax_(softmax) {}

  std::optional<AttentionMatch> run() {
    if (!find_scores() || !begin() || !follow_scores() || !enter_softmax() || !leave_softmax() || !multiply_values())
      return std::nullopt;
    for (const size_t i : {query_, key_, value_}) read_through_moves(i);
    write_through_moves();
    return finish();
  }

 private:
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const Shape& shape(ValueId id) const { return graph_.shape(id); }
  int32_t producer(ValueId id) const { return id == no_value ? -1 : uses_.producer[static_cast<size_t>(id)]; }
  int32_t only_reader(ValueId id) const { return uses_.single(id) ? uses_.readers[static_cast<size_t>(id)][0] : -1; }
  void take(const Node& n) { match_.sources = merged_sources(match_.sources, n.sources); }

  // Steps back from a value that only the step behind it reads to the product it comes from.
  bool find_scores(ValueId id, std::vector<int32_t>& steps) const {
    constexpr size_t most_steps = 64;  // each branch keeps a copy of its steps
    while (steps.size() < most_steps) {
      const int32_t n = producer(id);
      if (n < 0 || !uses_.single(id) || graph_.type(id).dtype != DType::f32) return false;
      if (node(n).op.as<ops::MatMul>()) {
        steps.push_back(n);
        return true;
      }
      if (is_view(node(n)) || node(n).op.as<ops::Transpose>()) {
        steps.push_back(n);
        id = node(n).inputs[0];
        continue;
      }
      if (!node(n).op.as<ops::Pointwise>()) return false;
      for (const ValueId operand : node(n).inputs) {
        if (graph_.is_constant(operand) || graph_.type(operand) != graph_.type(id)) continue;
        std::vector<int32_t> further = steps;
        further.push_back(n);
        if (!find_scores(operand, further)) continue;
        steps = std::move(further);
        return true;
      }
      return false;
    }
    return false;
  }

  bool find_scores() {
    const ValueId in = node(softmax_).inputs[0];
    if (node(softmax_).op.as<ops::Softmax>()->log || !find_scores(in, steps_)) return false;
    std::reverse(steps_.begin(), steps_.end());
    return true;
  }

  // The axes of the first product, and its operands as accesses.
  bool begin() {
    const Node& product = node(steps_[0]);
    const auto& op = *product.op.as<ops::MatMul>();
    const ValueId a = product.inputs[0], b = product.inputs[1];
    scores_ = product.outputs[0];
    const Shape& s = shape(scores_);
    for (size_t d = 0; d < s.size(); ++d) space_.add_axis(s[d], outer_axis);
    left_ = s.size() - 2;
    right_ = s.size() - 1;
    const size_t depth = space_.add_axis(shape(a)[shape(a).size() - (op.transpose_a ? 2 : 1)], depth_axis);
    scores_access_ = space_.add_access(dense_strides(s));
    const auto operand = [&](ValueId id, size_t axis, bool depth_last) {
      std::vector<Dim> strides;
      for (const Target& t : batch_targets(s, shape(id))) strides.push_back(t.stride);
      const Dim& width = shape(id).back();
      strides[axis] = depth_last ? width : Dim(1);
      strides.push_back(depth_last ? Dim(1) : width);
      (void)depth;
      return space_.add_access(std::move(strides));
    };
    query_ = operand(a, left_, !op.transpose_a);
    key_ = operand(b, right_, op.transpose_b);
    // Until the softmax shows which is which.
    space_.set_role(left_, query_axis);
    space_.set_role(right_, key_axis);
    sources_ = {{query_, a}, {key_, b}};
    take(product);
    return true;
  }

  std::optional<double> factor(const Node& n, ValueId x) const {
    const auto* op = n.op.as<ops::Pointwise>();
    if (!op || n.inputs.size() != 2 || (op->function != F::mul && op->function != F::div)) return std::nullopt;
    const bool first = n.inputs[0] == x;
    if (n.inputs[0] == n.inputs[1] || (op->function == F::div && !first)) return std::nullopt;
    const auto c = uniform_constant(graph_, n.inputs[first ? 1 : 0]);
    if (!c || (op->function == F::div && *c == 0)) return std::nullopt;
    return op->function == F::mul ? *c : 1 / *c;
  }

  bool adds_zero(const Node& n, ValueId x) const {
    const auto* op = n.op.as<ops::Pointwise>();
    if (!op || op->function != F::add || n.inputs[0] == n.inputs[1]) return false;
    return uniform_constant(graph_, n.inputs[n.inputs[0] == x ? 1 : 0]) == 0.0;
  }

  bool follow_scores() {
    for (size_t i = 1; i < steps_.size(); ++i) {
      const Node& step = node(steps_[i]);
      const ValueId before = scores_;
      scores_ = step.outputs[0];
      take(step);
      if (is_view(step)) continue;
      if (const auto* op = step.op.as<ops::Transpose>()) {
        if (!transpose_scores(*op, before)) return false;
        continue;
      }
      if (graph_.type(before) != graph_.type(scores_)) return false;
      if (adds_zero(step, before)) continue;  // a mask that hides nothing: the softmax does not see the sign of 0
      if (const auto scale = factor(step, before)) {
        if (!masks_.empty()) return false;
        match_.op.scale *= *scale;
      } else if (!take_mask(step, before)) {
        return false;
      }
    }
    return true;
  }

  bool transpose_scores(const ops::Transpose& op, ValueId before) {
    const Shape strides = dense_strides(shape(scores_));
    std::vector<Target> targets(strides.size());
    for (size_t d = 0; d < strides.size(); ++d) targets[static_cast<size_t>(op.permutation[d])].stride = strides[d];
    return space_.remap(scores_access_, shape(before), targets);
  }

  bool take_mask(const Node& step, ValueId x) {
    const F function = step.op.as<ops::Pointwise>()->function;
    ValueId mask = no_value;
    double masked = 0;
    bool inverted = false;
    if (function == F::add && step.inputs[0] != step.inputs[1]) {
      mask = step.inputs[step.inputs[0] == x ? 1 : 0];
    } else if (function == F::select && step.inputs[1] != step.inputs[2]) {
      mask = step.inputs[0];
      inverted = step.inputs[2] == x;
      const auto value = uniform_constant(graph_, step.inputs[inverted ? 1 : 2]);
      if (!value) return false;
      masked = *value;
    }
    if (mask == no_value) return false;
    const size_t access = space_.copy_access(scores_access_);
    if (!space_.remap(access, shape(x), broadcast_targets(shape(x), shape(mask)))) return false;
    masks_.push_back(access);
    match_.inputs.push_back(mask);
    match_.inverted.push_back(inverted);
    match_.op.masked.push_back(masked);
    return true;
  }

  // The dim `at` of the scores goes along all the axes of one of the operands and along no other.
  bool is_alone(size_t at, Role role) {
    const auto dims = space_.dims_of_axes(scores_access_, shape(scores_));
    if (!dims) return false;
    for (size_t axis = 0; axis < space_.axes(); ++axis) {
      if ((*dims)[axis] < 0) {
        if (space_.role(axis) == role && !(space_.size(axis) == Dim(1))) return false;
      } else if (((*dims)[axis] == static_cast<int>(at)) != (space_.role(axis) == role)) {
        return false;
      }
    }
    return true;
  }

  bool enter_softmax() {
    const auto axis = static_cast<size_t>(node(softmax_).op.as<ops::Softmax>()->axis);
    take(node(softmax_));
    if (is_alone(axis, key_axis)) return scores_ == node(softmax_).inputs[0];
    if (!is_alone(axis, query_axis)) return false;
    std::swap(query_, key_);
    for (size_t i = 0; i < space_.axes(); ++i)
      if (space_.role(i) == query_axis || space_.role(i) == key_axis)
        space_.set_role(i, space_.role(i) == query_axis ? key_axis : query_axis);
    return true;
  }

  // Follows the probabilities to the product with the values.
  bool leave_softmax() {
    scores_ = node(softmax_).outputs[0];
    take_zero_for_nan();
    for (;;) {
      const int32_t n = only_reader(scores_);
      if (n < 0) return false;
      const Node& step = node(n);
      take(step);
      if (step.op.as<ops::MatMul>()) {
        product_ = n;
        return true;
      }
      const ValueId before = scores_;
      scores_ = step.outputs[0];
      if (is_view(step)) continue;
      const auto* op = step.op.as<ops::Transpose>();
      if (!op || !transpose_scores(*op, before)) return false;
    }
  }

  // select(is_nan(p), 0, p)
  void take_zero_for_nan() {
    const auto& readers = uses_.readers[static_cast<size_t>(scores_)];
    if (readers.size() != 2 || uses_.is_output[static_cast<size_t>(scores_)]) return;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Node &test = node(readers[i]), &choice = node(readers[1 - i]);
      const auto *is_nan = test.op.as<ops::Pointwise>(), *select = choice.op.as<ops::Pointwise>();
      if (!is_nan || is_nan->function != F::is_nan || !select || select->function != F::select) continue;
      if (choice.inputs[0] != test.outputs[0] || choice.inputs[2] != scores_ || !uses_.single(test.outputs[0]))
        continue;
      if (uniform_constant(graph_, choice.inputs[1]) != 0.0) continue;
      if (graph_.type(choice.outputs[0]) != graph_.type(scores_)) continue;
      take(test);
      take(choice);
      scores_ = choice.outputs[0];
      match_.op.zero_undefined = true;
      return;
    }
  }

  bool multiply_values() {
    const Node& product = node(product_);
    const auto& op = *product.op.as<ops::MatMul>();
    if (product.inputs[0] == product.inputs[1]) return false;
    const bool left = product.inputs[0] == scores_;
    const ValueId values = product.inputs[left ? 1 : 0], out = product.outputs[0];
    const Shape &p = shape(scores_), &v = shape(values), &y = shape(out);
    if (p.size() != y.size() || v.size() > y.size()) return false;
    for (size_t d = 0; d + 2 < p.size(); ++d)
      if (!(p[d] == y[d])) return false;
    // Which dims the product sums over: of the probabilities and of the values.
    const bool p_last = left ? !op.transpose_a : op.transpose_b, v_last = left ? op.transpose_b : !op.transpose_a;
    const size_t p_sum = p.size() - (p_last ? 1 : 2), v_sum = v.size() - (v_last ? 1 : 2);
    const size_t p_free = 2 * p.size() - 3 - p_sum, v_free = 2 * v.size() - 3 - v_sum;
    if (!is_alone(p_sum, key_axis)) return false;

    const size_t axis = space_.add_axis(v[v_free], value_axis);
    value_ = space_.copy_access(scores_access_);
    std::vector<Target> targets = batch_targets(p, v);
    targets[p_sum].stride = dense_strides(v)[v_sum];
    if (!space_.remap(value_, p, targets)) return false;
    space_.set_stride(value_, space_.axes() - 1, dense_strides(v)[v_free]);
    (void)axis;

    result_ = space_.copy_access(scores_access_);
    const Shape strides = dense_strides(y);
    for (size_t d = 0; d < p.size(); ++d) targets[d].stride = d == p_sum ? Dim(0) : strides[d];
    targets[p_free].stride = strides[y.size() - (left ? 2 : 1)];
    if (!space_.remap(result_, p, targets)) return false;
    space_.set_stride(result_, space_.axes() - 1, strides[y.size() - (left ? 1 : 2)]);
    match_.result = out;
    sources_.push_back({value_, values});
    return true;
  }

  size_t count(Role role) const {
    size_t n = 0;
    for (size_t i = 0; i < space_.axes(); ++i) n += space_.role(i) == role ? 1 : 0;
    return n;
  }

  // Only what keeps the elements of a head in a row: one axis.
  bool remap(size_t access, const Shape& from, const std::vector<Target>& targets) {
    AccessSpace trial = space_;
    if (!trial.remap(access, from, targets)) return false;
    std::swap(space_, trial);
    if (count(depth_axis) == 1 && count(value_axis) == 1) return true;
    std::swap(space_, trial);
    return false;
  }

  void read_through_moves(size_t access) {
    auto& [unused, id] =
        *std::find_if(sources_.begin(), sources_.end(), [&](const auto& s) { return s.first == access; });
    for (ValueId at = id; producer(at) >= 0;) {
      const Node& move = node(producer(at));
      if (move.outputs.size() != 1 || move.inputs.empty()) return;
      if (!is_view(move)) {
        const auto targets = backward_targets(move, shape(at), shape(move.inputs[0]));
        if (!targets || !remap(access, shape(at), *targets)) return;
        take(move);
      }
      id = at = move.inputs[0];
    }
  }

  // As far as the last transpose: reshapes behind it cost nothing.
  void write_through_moves() {
    std::vector<std::string> sources;
    for (ValueId at = match_.result; only_reader(at) >= 0;) {
      const Node& move = node(only_reader(at));
      const auto* op = move.op.as<ops::Transpose>();
      if (!op && !is_view(move)) return;
      const ValueId to = move.outputs[0];
      sources = merged_sources(sources, move.sources);
      if (op) {
        const Shape strides = dense_strides(shape(to));
        std::vector<Target> targets(strides.size());
        for (size_t d = 0; d < strides.size(); ++d)
          targets[static_cast<size_t>(op->permutation[d])].stride = strides[d];
        if (!remap(result_, shape(at), targets)) return;
        match_.result = to;
        match_.sources = merged_sources(match_.sources, sources);
      }
      at = to;
    }
  }

  const Dim& stride(size_t access, size_t axis) const { return space_.access(access).strides[axis]; }

  std::optional<AttentionMatch> finish() {
    // Queries that do not share their keys are problems of their own, and problems that share them are queries.
    for (size_t i = 0; i < space_.axes(); ++i) {
      if (space_.role(i) != query_axis && space_.role(i) != outer_axis) continue;
      const bool shared = stride(key_, i) == Dim(0) && stride(value_, i) == Dim(0);
      space_.set_role(i, shared ? query_axis : outer_axis);
    }
    for (size_t i = 0; i < space_.axes(); ++i) space_.set_stride(scores_access_, i, 0);
    space_.simplify();
    ops::Attention& op = match_.op;
    const auto collect = [&](Role role, const auto& each) {
      for (size_t i = 0; i < space_.axes(); ++i)
        if (space_.role(i) == role) each(i);
    };
    const auto access = [&](size_t a, Role rows, Role column, Shape& out) {
      out.push_back(space_.access(a).offset);
      for (const Role role : {Role::outer_axis, rows}) collect(role, [&](size_t i) { out.push_back(stride(a, i)); });
      const size_t before = out.size();
      collect(column, [&](size_t i) { out.push_back(stride(a, i)); });
      if (out.size() == before && column != key_axis) out.push_back(1);  // of size 1
    };
    collect(outer_axis, [&](size_t i) { op.outer.push_back(space_.size(i)); });
    collect(query_axis, [&](size_t i) { op.queries.push_back(space_.size(i)); });
    collect(key_axis, [&](size_t i) { op.keys.push_back(space_.size(i)); });
    for (const auto& [role, size] : {std::pair(depth_axis, &op.size), std::pair(value_axis, &op.value_size)}) {
      if (count(role) > 1) return std::nullopt;
      bool fits = true;
      collect(role, [&, to = size](size_t i) {
        const auto n = space_.size(i).as_constant();
        fits = n && *n >= 1;
        if (fits) *to = *n;
      });
      if (!fits) return std::nullopt;
    }
    access(query_, query_axis, depth_axis, op.query);
    access(key_, key_axis, depth_axis, op.key);
    access(value_, key_axis, value_axis, op.value);
    access(result_, query_axis, value_axis, op.result);
    for (const size_t mask : masks_) access(mask, query_axis, key_axis, op.masks);
    op.shape = shape(match_.result);
    std::vector<ValueId> inputs;
    for (const size_t i : {query_, key_, value_})
      for (const auto& [a, id] : sources_)
        if (a == i) inputs.push_back(id);
    match_.inputs.insert(match_.inputs.begin(), inputs.begin(), inputs.end());
    const bool fits = std::all_of(match_.inputs.begin(), match_.inputs.end(), [&](ValueId id) {
      const DType dtype = graph_.type(id).dtype;
      return dtype == DType::f32 || dtype == DType::boolean;
    });
    if (!fits) return std::nullopt;
    return std::move(match_);
  }

  const Graph& graph_;
  const Uses& uses_;
  const int32_t softmax_;
  AccessSpace space_;
  std::vector<int32_t> steps_;  // from the first product to the softmax
  int32_t product_ = -1;        // the second
  ValueId scores_ = no_value;   // as far as they have been followed
  size_t scores_access_ = 0, query_ = 0, key_ = 0, value_ = 0, result_ = 0;
  size_t left_ = 0, right_ = 0;
  std::vector<size_t> masks_;
  std::vector<std::pair<size_t, ValueId>> sources_;  // accesses and what they read
  AttentionMatch match_;
};

}  // namespace

std::optional<AttentionMatch> match_attention(const Graph& graph, const Uses& uses, int32_t softmax) {
  return Matcher(graph, uses, softmax).run();
}

}  // namespace camshaft
