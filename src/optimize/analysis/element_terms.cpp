#include "optimize/analysis/element_terms.h"

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "optimize/analysis/axis_targets.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;
using Target = AccessSpace::Target;

constexpr int deepest = 64;  // chain of moves and sums
constexpr size_t most_terms = 2;

}  // namespace

std::vector<ElementTerms::Term> ElementTerms::of(ValueId id, size_t access) {
  std::vector<Term> terms;
  if (!follow(id, access, false, 0, terms)) terms.clear();
  return terms;
}

const Node* ElementTerms::producer(ValueId id) const {
  const int32_t n = uses_.producer[static_cast<size_t>(id)];
  if (n < 0) return nullptr;
  const Node& node = graph_.nodes[static_cast<size_t>(n)];
  return node.outputs.size() == 1 && !node.inputs.empty() ? &node : nullptr;
}

void ElementTerms::take(const Node& node) {
  sources_ = merged_sources(sources_, node.sources);
}

bool ElementTerms::remap(size_t access, const Shape& from, const std::vector<Target>& targets) {
  AccessSpace trial = space_;
  if (!trial.remap(access, from, targets) || !allows_(trial, access)) return false;
  std::swap(space_, trial);
  return true;
}

// The move or concatenation that computes the value, when the access can be led into one of its operands.
const Node* ElementTerms::step_back(ValueId id, size_t access, ValueId& to) {
  const Node* node = producer(id);
  if (!node) return nullptr;
  to = node->inputs[0];
  if (node->op.as<ops::Reshape>()) return node->inputs.size() == 1 ? node : nullptr;
  if (const auto* op = node->op.as<ops::Concat>())
    return choose_part(*node, static_cast<size_t>(op->axis), access, to) ? node : nullptr;
  const auto targets = backward_targets(*node, graph_.shape(id), graph_.shape(to));
  return targets && remap(access, graph_.shape(id), *targets) ? node : nullptr;
}

bool ElementTerms::choose_part(const Node& concat, size_t axis, size_t access, ValueId& to) {
  const Shape& shape = graph_.shape(concat.outputs[0]);
  AccessSpace trial = space_;
  const auto span = trial.span(access, shape, axis);
  if (!span) return false;
  Dim begin = 0;
  for (const ValueId part : concat.inputs) {
    const Dim end = begin + graph_.shape(part)[axis];
    if (provably_at_most(begin, span->first) && provably_at_most(span->second + 1, end)) {
      const Shape strides = dense_strides(graph_.shape(part));
      std::vector<Target> targets(shape.size());
      for (size_t d = 0; d < shape.size(); ++d) targets[d].stride = strides[d];
      targets[axis].offset = Dim(0) - begin * strides[axis];
      to = part;
      return remap(access, shape, targets);
    }
    begin = end;
  }
  return false;
}

ElementTerms::Operand ElementTerms::before_moves(ValueId id, size_t access) {
  ValueId to = no_value;
  for (int depth = 0; depth < deepest; ++depth, id = to) {
    const Node* node = step_back(id, access, to);
    if (!node) break;
    take(*node);
  }
  return {id, access};
}

ElementTerms::Operand ElementTerms::factor(ValueId id, size_t access, bool& negative) {
  for (;;) {
    id = before_moves(id, access).value;
    const Node* node = producer(id);
    const auto* op = node ? node->op.as<ops::Pointwise>() : nullptr;
    if (!op || op->function != F::neg) return {id, access};
    take(*node);
    negative = !negative;
    id = node->inputs[0];
  }
}

bool ElementTerms::follow(ValueId id, size_t access, bool negative, int depth, std::vector<Term>& terms) {
  if (depth > deepest) return false;
  const Node* node = producer(id);
  const auto* op = node ? node->op.as<ops::Pointwise>() : nullptr;
  const auto is = [&](F function) { return op && op->function == function; };
  if (is(F::neg)) {
    take(*node);
    return follow(node->inputs[0], access, !negative, depth + 1, terms);
  }
  if (!is(F::add) && !is(F::sub) && !is(F::mul)) {
    ValueId to = no_value;
    if (const Node* move = step_back(id, access, to)) {
      take(*move);
      return follow(to, access, negative, depth + 1, terms);
    }
    terms.push_back({negative, {{id, access}}});
    return terms.size() <= most_terms;
  }
  take(*node);
  const ValueId left = node->inputs[0], right = node->inputs[1];
  const size_t other = space_.copy_access(access);
  const auto broadcast = [&](ValueId operand, size_t to) {
    return remap(to, graph_.shape(id), broadcast_targets(graph_.shape(id), graph_.shape(operand)));
  };
  if (!broadcast(left, access) || !broadcast(right, other)) return false;
  if (!is(F::mul))
    return follow(left, access, negative, depth + 1, terms) &&
           follow(right, other, negative != is(F::sub), depth + 1, terms);
  std::vector<Operand> factors{factor(left, access, negative), factor(right, other, negative)};
  terms.push_back({negative, std::move(factors)});
  return terms.size() <= most_terms;
}

}  // namespace camshaft
