#include "optimize/analysis/match_moments.h"

#include <cmath>

#include "ir/ops/pointwise.h"

namespace camshaft {

using F = ScalarFunction;

std::optional<Mean> MomentMatcher::mean_of(ValueId id) {
  if (const auto mean = reduced(ops::ReduceKind::mean, id)) return mean;
  for (const F function : {F::mul, F::div}) {
    const std::vector<ValueId> inputs = producers_.inputs_of(function, id);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto factor = uniform_constant(graph_, inputs[1 - i]);
      if (!factor || (function == F::div && i == 1) || graph_.type(inputs[i]) != graph_.type(id)) continue;
      for (const auto kind : {ops::ReduceKind::sum, ops::ReduceKind::sum_squares}) {
        const auto sum = reduced(kind, inputs[i]);
        const auto count = sum ? elements_from(sum->axis, sum->of) : std::nullopt;
        // A rounded reciprocal of the count is one.
        if (count && std::abs((function == F::mul ? *factor * *count : *factor / *count) - 1) < 1e-6) return sum;
      }
    }
  }
  return std::nullopt;
}

std::optional<Mean> MomentMatcher::reduced(ops::ReduceKind kind, ValueId id) {
  const auto* op = producers_.op<ops::Reduce>(id);
  if (!op || op->kind != kind || !op->keep_dims || op->axes.empty()) return std::nullopt;
  const ValueId x = producers_.find(id)->inputs[0];
  const auto rank = static_cast<int64_t>(graph_.shape(x).size());
  for (size_t i = 0; i < op->axes.size(); ++i)
    if (op->axes[i] != rank - static_cast<int64_t>(op->axes.size() - i)) return std::nullopt;
  return Mean{x, op->axes[0], kind == ops::ReduceKind::sum_squares};
}

std::optional<double> MomentMatcher::elements_from(int64_t axis, ValueId id) const {
  double count = 1;
  for (auto d = static_cast<size_t>(axis); d < graph_.shape(id).size(); ++d) {
    const auto size = graph_.shape(id)[d].as_constant();
    if (!size) return std::nullopt;
    count *= static_cast<double>(*size);
  }
  return count;
}

std::optional<Mean> MomentMatcher::mean_of_squares(ValueId id) {
  auto mean = mean_of(id);
  if (!mean || mean->squares) return mean;
  const std::vector<ValueId> square = producers_.inputs_of(F::mul, mean->of);
  if (square.empty() || square[0] != square[1]) return std::nullopt;
  return Mean{square[0], mean->axis, true};
}

std::optional<Mean> MomentMatcher::centred(ValueId id) {
  const std::vector<ValueId> difference = producers_.inputs_of(F::sub, id);
  const auto mean = difference.empty() ? std::nullopt : mean_of(difference[1]);
  return mean && *mean == Mean{difference[0], mean->axis} ? mean : std::nullopt;
}

// A mean of squares, or their sum, without an epsilon.
std::optional<Variance> MomentMatcher::squares_of(ValueId id) {
  if (const auto mean = mean_of_squares(id)) return Variance{.of = mean->of, .axis = mean->axis};
  auto squares = reduced(ops::ReduceKind::sum_squares, id);
  if (const auto sum = squares ? std::nullopt : reduced(ops::ReduceKind::sum, id)) {
    const std::vector<ValueId> square = producers_.inputs_of(F::mul, sum->of);
    if (!square.empty() && square[0] == square[1]) squares = Mean{square[0], sum->axis, true};
  }
  const auto count = squares ? elements_from(squares->axis, squares->of) : std::nullopt;
  if (!count || *count < 1) return std::nullopt;
  return Variance{.of = squares->of, .axis = squares->axis, .count = *count};
}

std::optional<Variance> MomentMatcher::variance_of(ValueId v) {
  const std::vector<ValueId> sum = producers_.inputs_of(F::add, v);
  for (size_t i = 0; i < sum.size(); ++i) {
    const auto epsilon = uniform_constant(graph_, sum[i]);
    if (!epsilon || !(*epsilon >= 0)) continue;
    const ValueId value = not_clamped_at_zero(sum[1 - i]);
    if (auto squares = squares_of(value)) {
      squares->epsilon = *epsilon / squares->count;
      const auto x = centred(squares->of);
      squares->is_centred = x && x->axis == squares->axis;
      if (squares->is_centred) squares->of = x->of;
      return squares;
    }
    if (const auto x = difference_of_moments(value)) return Variance{x->of, x->axis, *epsilon, true};
  }
  const std::vector<ValueId> larger = producers_.inputs_of(F::max, v);
  for (size_t i = 0; i < larger.size(); ++i)
    if (const auto found = clamped(larger[i], larger[1 - i], false)) return found;
  return std::nullopt;
}

std::optional<Variance> MomentMatcher::variance_of_root(ValueId id) {
  if (const auto v = producers_.inputs_of(F::sqrt, id); !v.empty()) return variance_of(v[0]);
  const std::vector<ValueId> larger = producers_.inputs_of(F::max, id);
  for (size_t i = 0; i < larger.size(); ++i)
    if (const auto v = producers_.inputs_of(F::sqrt, larger[i]); !v.empty())
      if (const auto found = clamped(v[0], larger[1 - i], true)) return found;
  return std::nullopt;
}

std::optional<Variance> MomentMatcher::clamped(ValueId value, ValueId bound, bool of_root) {
  const auto least = uniform_constant(graph_, bound);
  auto squares = squares_of(value);
  if (!least || !squares || !(*least > 0)) return std::nullopt;
  squares->epsilon = (of_root ? *least * *least : *least) / squares->count;
  squares->is_clamped = true;
  // A number that f32 rounds to 0 would divide by it.
  constexpr double smallest = 0x1p-120;
  return squares->epsilon >= smallest && std::isfinite(squares->epsilon) ? squares : std::nullopt;
}

// v of max(v, 0), for variances are no less.
ValueId MomentMatcher::not_clamped_at_zero(ValueId id) {
  const std::vector<ValueId> larger = producers_.inputs_of(F::max, id);
  for (size_t i = 0; i < larger.size(); ++i)
    if (uniform_constant(graph_, larger[i]) == 0.0) return larger[1 - i];
  return id;
}

// x of mean(x·x) - mean(x)·mean(x), which the norm computes without the cancellation.
std::optional<Mean> MomentMatcher::difference_of_moments(ValueId id) {
  const std::vector<ValueId> difference = producers_.inputs_of(F::sub, id);
  if (difference.empty()) return std::nullopt;
  const auto squares = mean_of_squares(difference[0]);
  const std::vector<ValueId> square = producers_.inputs_of(F::mul, difference[1]);
  if (!squares || square.empty() || square[0] != square[1]) return std::nullopt;
  const auto mean = mean_of(square[0]);
  return mean && *mean == Mean{squares->of, squares->axis} ? mean : std::nullopt;
}

}  // namespace camshaft
