#include "optimize/analysis/attention_operands.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "optimize/analysis/axis_targets.h"
#include "optimize/analysis/match.h"
#include "optimize/analysis/score_path.h"

namespace camshaft {

using Target = AccessSpace::Target;

void AttentionOperands::begin(const Node& product) {
  const auto& op = *product.op.as<ops::MatMul>();
  const ValueId a = product.inputs[0], b = product.inputs[1];
  const Shape& s = shape(product.outputs[0]);
  for (size_t d = 0; d < s.size(); ++d) space_.add_axis(s[d], outer_axis);
  const size_t left = s.size() - 2, right = s.size() - 1;
  space_.add_axis(shape(a)[shape(a).size() - (op.transpose_a ? 2 : 1)], depth_axis);
  scores_ = space_.add_access(dense_strides(s));
  const auto operand = [&](ValueId id, size_t axis, bool depth_last) {
    std::vector<Dim> strides;
    for (const Target& t : batch_targets(s, shape(id))) strides.push_back(t.stride);
    const Dim& width = shape(id).back();
    strides[axis] = depth_last ? width : Dim(1);
    strides.push_back(depth_last ? Dim(1) : width);
    return space_.add_access(std::move(strides));
  };
  first_ = query_ = operand(a, left, !op.transpose_a);
  key_ = operand(b, right, op.transpose_b);
  // Until the softmax shows which is which.
  space_.set_role(left, query_axis);
  space_.set_role(right, key_axis);
  sources_ = {{query_, a}, {key_, b}};
}

bool AttentionOperands::transpose_scores(const ops::Transpose& op, ValueId before, ValueId after) {
  const Shape strides = dense_strides(shape(after));
  std::vector<Target> targets(strides.size());
  for (size_t d = 0; d < strides.size(); ++d) targets[static_cast<size_t>(op.permutation[d])].stride = strides[d];
  return space_.remap(scores_, shape(before), targets);
}

bool AttentionOperands::add_mask(ValueId scores, ValueId mask) {
  const size_t access = space_.copy_access(scores_);
  if (!space_.remap(access, shape(scores), broadcast_targets(shape(scores), shape(mask)))) return false;
  masks_.push_back(access);
  return true;
}

// The dim `at` of the scores goes along all the axes of one of the operands and along no other.
bool AttentionOperands::is_alone(ValueId scores, size_t at, Role role) {
  const auto dims = space_.dims_of_axes(scores_, shape(scores));
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

bool AttentionOperands::choose_keys(ValueId scores, size_t axis) {
  if (is_alone(scores, axis, key_axis)) return true;
  if (!is_alone(scores, axis, query_axis)) return false;
  std::swap(query_, key_);
  for (size_t i = 0; i < space_.axes(); ++i)
    if (space_.role(i) == query_axis || space_.role(i) == key_axis)
      space_.set_role(i, space_.role(i) == query_axis ? key_axis : query_axis);
  return true;
}

bool AttentionOperands::multiply_values(const Node& product, ValueId scores) {
  const auto& op = *product.op.as<ops::MatMul>();
  if (product.inputs[0] == product.inputs[1]) return false;
  const bool left = product.inputs[0] == scores;
  const ValueId values = product.inputs[left ? 1 : 0], out = product.outputs[0];
  const Shape &p = shape(scores), &v = shape(values), &y = shape(out);
  if (p.size() != y.size() || v.size() > y.size()) return false;
  for (size_t d = 0; d + 2 < p.size(); ++d)
    if (!(p[d] == y[d])) return false;
  // Which dims the product sums over: of the probabilities and of the values.
  const bool p_last = left ? !op.transpose_a : op.transpose_b, v_last = left ? op.transpose_b : !op.transpose_a;
  const size_t p_sum = p.size() - (p_last ? 1 : 2), v_sum = v.size() - (v_last ? 1 : 2);
  const size_t p_free = 2 * p.size() - 3 - p_sum, v_free = 2 * v.size() - 3 - v_sum;
  if (!is_alone(scores, p_sum, key_axis)) return false;

  space_.add_axis(v[v_free], value_axis);
  value_ = space_.copy_access(scores_);
  std::vector<Target> targets = batch_targets(p, v);
  targets[p_sum].stride = dense_strides(v)[v_sum];
  if (!space_.remap(value_, p, targets)) return false;
  space_.set_stride(value_, space_.axes() - 1, dense_strides(v)[v_free]);

  result_ = space_.copy_access(scores_);
  const Shape strides = dense_strides(y);
  for (size_t d = 0; d < p.size(); ++d) targets[d].stride = d == p_sum ? Dim(0) : strides[d];
  targets[p_free].stride = strides[y.size() - (left ? 2 : 1)];
  if (!space_.remap(result_, p, targets)) return false;
  space_.set_stride(result_, space_.axes() - 1, strides[y.size() - (left ? 1 : 2)]);
  result_value_ = out;
  sources_.push_back({value_, values});
  return true;
}

size_t AttentionOperands::count(Role role) const {
  size_t n = 0;
  for (size_t i = 0; i < space_.axes(); ++i) n += space_.role(i) == role ? 1 : 0;
  return n;
}

// Only what keeps the elements of a head in a row: one axis.
bool AttentionOperands::remap(size_t access, const Shape& from, const std::vector<Target>& targets) {
  AccessSpace trial = space_;
  if (!trial.remap(access, from, targets)) return false;
  std::swap(space_, trial);
  if (count(depth_axis) == 1 && count(value_axis) == 1) return true;
  std::swap(space_, trial);
  return false;
}

void AttentionOperands::read_through_moves(size_t access, std::vector<std::string>& sources) {
  auto& [unused, id] =
      *std::find_if(sources_.begin(), sources_.end(), [&](const auto& s) { return s.first == access; });
  for (ValueId at = id; producer(at) >= 0;) {
    const Node& move = node(producer(at));
    if (move.outputs.size() != 1 || move.inputs.empty()) return;
    if (!only_reshapes(move)) {
      const auto targets = backward_targets(move, shape(at), shape(move.inputs[0]));
      if (!targets || !remap(access, shape(at), *targets)) return;
      sources = merged_sources(sources, move.sources);
    }
    id = at = move.inputs[0];
  }
}

// As far as the last transpose: reshapes behind it cost nothing.
void AttentionOperands::write_through_moves(std::vector<std::string>& sources) {
  std::vector<std::string> passed;
  for (ValueId at = result_value_; only_reader(at) >= 0;) {
    const Node& move = node(only_reader(at));
    const auto* op = move.op.as<ops::Transpose>();
    if (!op && !only_reshapes(move)) return;
    const ValueId to = move.outputs[0];
    passed = merged_sources(passed, move.sources);
    if (op) {
      const Shape strides = dense_strides(shape(to));
      std::vector<Target> targets(strides.size());
      for (size_t d = 0; d < strides.size(); ++d) targets[static_cast<size_t>(op->permutation[d])].stride = strides[d];
      if (!remap(result_, shape(at), targets)) return;
      result_value_ = to;
      sources = merged_sources(sources, passed);
    }
    at = to;
  }
}

std::optional<std::string> AttentionOperands::fill(ops::Attention& op) {
  // Queries that do not share their keys are problems of their own, and problems that share them are queries.
  for (size_t i = 0; i < space_.axes(); ++i) {
    if (space_.role(i) != query_axis && space_.role(i) != outer_axis) continue;
    const bool shared = stride(key_, i) == Dim(0) && stride(value_, i) == Dim(0);
    space_.set_role(i, shared ? query_axis : outer_axis);
  }
  for (size_t i = 0; i < space_.axes(); ++i) space_.set_stride(scores_, i, 0);
  space_.simplify();
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
    if (count(role) > 1) return "the elements of a head are not evenly spaced";
    bool fits = true;
    collect(role, [&, to = size](size_t i) {
      const auto n = space_.size(i).as_constant();
      fits = n && *n >= 1;
      if (fits) *to = *n;
    });
    if (!fits) return "the size of a head is not known";
  }
  access(query_, query_axis, depth_axis, op.query);
  access(key_, key_axis, depth_axis, op.key);
  access(value_, key_axis, value_axis, op.value);
  access(result_, query_axis, value_axis, op.result);
  for (const size_t mask : masks_) access(mask, query_axis, key_axis, op.masks);
  op.shape = shape(result_value_);
  return std::nullopt;
}

std::vector<ValueId> AttentionOperands::inputs() const {
  std::vector<ValueId> ids;
  for (const size_t access : {query_, key_, value_})
    for (const auto& [a, id] : sources_)
      if (a == access) ids.push_back(id);
  return ids;
}

void AttentionOperands::go_through_moves(bool keeps_first, std::vector<std::string>& sources) {
  for (const size_t access : {query_, key_, value_})
    if (!keeps_first || access != first_) read_through_moves(access, sources);
  write_through_moves(sources);
}

}  // namespace camshaft
