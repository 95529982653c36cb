#include "optimize/analysis/match_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "optimize/analysis/attention_operands.h"
#include "optimize/analysis/match.h"
#include "optimize/analysis/score_path.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

class AttentionMatcher {
 public:
  AttentionMatcher(const Graph& graph, const Uses& uses, int32_t softmax)
      : graph_(graph), uses_(uses), softmax_(softmax), operands_(graph, uses) {}

  std::optional<AttentionMatch> run(std::string& reason) {
    auto match = run();
    if (!match && is_between_products()) reason = std::move(reason_);
    return match;
  }

 private:
  std::optional<AttentionMatch> run() {
    if (!find_scores()) return no("another operator than a pointwise one lies before it, or reads the scores");
    operands_.begin(node(steps_[0]));
    take(node(steps_[0]));
    scores_ = node(steps_[0]).outputs[0];
    if (!follow_scores()) return no(fmt::format("'{}' does something else to the scores", name_of(scores_)));
    if (!enter_softmax()) return no("it is not taken along the keys");
    if (!leave_softmax()) return no("the probabilities do not go into a product alone");
    if (!operands_.multiply_values(node(product_), scores_))
      return no("the product behind it does not sum over the keys");
    operands_.go_through_moves(match_.factor != no_value, match_.sources);
    return finish();
  }

  // Only moves and pointwise operators are between the softmax and a product on either side.
  bool is_between_products() const {
    const auto passes = [](const Node& n) {
      return only_reshapes(n) || n.op.as<ops::Transpose>() || n.op.as<ops::Pointwise>();
    };
    int32_t n = steps_.empty() ? producer(node(softmax_).inputs[0]) : steps_[0];
    while (n >= 0 && passes(node(n))) n = producer(node(n).inputs[0]);
    if (n < 0 || !node(n).op.as<ops::MatMul>()) return false;
    n = softmax_;
    do {
      const auto& readers = uses_.readers[static_cast<size_t>(node(n).outputs[0])];
      n = readers.empty() ? -1 : readers[0];
    } while (n >= 0 && passes(node(n)));
    return n >= 0 && node(n).op.as<ops::MatMul>();
  }

  std::nullopt_t no(std::string reason) {
    reason_ = std::move(reason);
    return std::nullopt;
  }
  std::string name_of(ValueId id) const {
    const int32_t n = producer(id);
    return n < 0 || node(n).sources.empty() ? graph_.value(id).name : node(n).sources.front();
  }
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const Shape& shape(ValueId id) const { return graph_.shape(id); }
  int32_t producer(ValueId id) const { return id == no_value ? -1 : uses_.producer[static_cast<size_t>(id)]; }
  int32_t only_reader(ValueId id) const { return uses_.single(id) ? uses_.readers[static_cast<size_t>(id)][0] : -1; }
  void take(const Node& n) { match_.sources = merged_sources(match_.sources, n.sources); }

  bool find_scores() {
    if (node(softmax_).op.as<ops::Softmax>()->log) return false;
    steps_ = score_path(graph_, uses_, node(softmax_).inputs[0]);
    return !steps_.empty();
  }

  bool follow_scores() {
    for (size_t i = 1; i < steps_.size(); ++i) {
      const Node& step = node(steps_[i]);
      const ValueId before = scores_;
      scores_ = step.outputs[0];
      take(step);
      if (only_reshapes(step)) continue;
      if (const auto* op = step.op.as<ops::Transpose>()) {
        if (!operands_.transpose_scores(*op, before, scores_)) return false;
        continue;
      }
      if (graph_.type(before) != graph_.type(scores_)) return false;
      const auto change = score_step(graph_, step, before);
      if (!change || !take(*change, before)) return false;
    }
    return cap_scores();
  }

  bool take(const ScoreStep& step, ValueId x) {
    switch (step.kind) {
      case ScoreStep::Kind::nothing:
        return true;
      case ScoreStep::Kind::scale:
        return take_scale(step.factor);
      case ScoreStep::Kind::scale_by_head:
        return take_factor(step.mask, x);
      case ScoreStep::Kind::tanh:
        if (capped_ || !match_.changes.empty()) return false;
        capped_ = true;
        return true;
      default:
        return take_mask(step, x);
    }
  }

  // Of what masks have added before it, too.
  bool take_scale(double factor) {
    constexpr double most = std::numeric_limits<float>::max();
    ops::Attention& op = match_.op;
    for (size_t m = 0; m < match_.changes.size(); ++m) {
      double& masked = op.masked[m];
      const bool stays = std::isinf(masked) || std::abs(masked * factor) <= most;
      if (!(factor > 0) || std::isinf(factor) || !stays) return false;
      masked *= factor;
      match_.changes[m].factor *= factor;
    }
    (capped_ ? cap_ : op.scale) *= factor;
    return true;
  }

  // Factors that differ by head (the temperatures of cosine attention) go into the first operand of the product.
  bool take_factor(ValueId factor, ValueId x) {
    const Node& product = node(steps_[0]);
    const ValueId operand = product.inputs[0];
    if (match_.factor != no_value || capped_ || !match_.changes.empty()) return false;
    if (shape(x) != shape(product.outputs[0]) || shape(operand).size() != shape(x).size()) return false;
    const Node scaled{ops::Pointwise{F::mul}, {operand, factor}, product.outputs, {}, {}};
    if (infer(graph_, scaled)[0].type != graph_.type(operand)) return false;
    for (size_t i = 0; node(steps_[i]).outputs[0] != x; ++i)
      if (!node(steps_[i + 1]).op.as<ops::Pointwise>()) return false;
    match_.factor = factor;
    return true;
  }

  // cap · tanh(scale · s), which was followed, as the operator has it: c · tanh((cap · scale) · s / c) with c = |cap|.
  bool cap_scores() {
    if (!capped_) return true;
    match_.op.scale *= cap_;
    match_.op.softcap = std::abs(cap_);
    return cap_ != 0 && std::isfinite(cap_) && std::isfinite(match_.op.scale);
  }

  bool take_mask(const ScoreStep& step, ValueId x) {
    if (!operands_.add_mask(x, step.mask)) return false;
    match_.inputs.push_back(step.mask);
    match_.changes.push_back({step.inverted, step.factor});
    match_.op.masked.push_back(step.masked);
    return true;
  }

  bool enter_softmax() {
    take(node(softmax_));
    return operands_.choose_keys(scores_, static_cast<size_t>(node(softmax_).op.as<ops::Softmax>()->axis));
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
      if (only_reshapes(step)) continue;
      const auto* op = step.op.as<ops::Transpose>();
      if (!op || !operands_.transpose_scores(*op, before, scores_)) return false;
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

  std::optional<AttentionMatch> finish() {
    if (auto reason = operands_.fill(match_.op)) return no(std::move(*reason));
    match_.result = operands_.result();
    match_.factor_of = operands_.first_is_query() ? 0 : 1;
    const std::vector<ValueId> inputs = operands_.inputs();
    match_.inputs.insert(match_.inputs.begin(), inputs.begin(), inputs.end());
    const bool fits = std::all_of(match_.inputs.begin(), match_.inputs.end(), [&](ValueId id) {
      const DType dtype = graph_.type(id).dtype;
      return dtype == DType::f32 || dtype == DType::boolean;
    });
    if (!fits) return no("an operand is not f32");
    return std::move(match_);
  }

  const Graph& graph_;
  const Uses& uses_;
  const int32_t softmax_;
  AttentionOperands operands_;
  std::vector<int32_t> steps_;  // from the first product to the softmax
  int32_t product_ = -1;        // the second
  ValueId scores_ = no_value;   // as far as they have been followed
  bool capped_ = false;         // a tanh has been met …
  double cap_ = 1;              // … and multiplied by this
  AttentionMatch match_;
  std::string reason_;
};

}  // namespace

std::optional<AttentionMatch> match_attention(const Graph& graph, const Uses& uses, int32_t softmax,
                                              std::string& reason) {
  return AttentionMatcher(graph, uses, softmax).run(reason);
}

}  // namespace camshaft
