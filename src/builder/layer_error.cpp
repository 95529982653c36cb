#include "builder/layer_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace camshaft {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

bool has_numbers(const Tensor& tensor) {
  return !is_container(tensor.dtype()) && tensor.dtype() != DType::string;
}

// Steps are known to the precision of f32.
constexpr double one_step = 1.001;

double ratio(double found, double allowed) {
  if (found == 0) return 0;
  return allowed > 0 ? found / allowed : infinite;
}

}  // namespace

double most_telling(double tolerance) {
  return std::max(0.1, tolerance);
}

double most_excused(double moved, double all) {
  return std::min(4 * moved, moved + std::max(all / 8, 4.0));
}

LayerError::LayerError(Tensor expected, Tensor actual, double tolerance, double rounding, double excused)
    : expected_(std::move(expected)),
      actual_(std::move(actual)),
      tolerance_(tolerance),
      rounding_(rounding),
      excused_(excused),
      compared_(compare_outputs({""}, {expected_}, {actual_}, tolerance, rounding)[0]) {}

void LayerError::add_moved(const Tensor& moved) {
  if (!moved.defined() || moved.dims() != expected_.dims()) {
    other_shape_ = true;
    return;
  }
  if (compared_.exact) {
    const OutputError error = compare_outputs({""}, {expected_}, {moved}, tolerance_, rounding_)[0];
    differing_ = std::max(differing_, error.differing);
    if (!has_numbers(expected_)) return;
  }
  const std::vector<double> e = expected_.to_doubles(), m = moved.to_doubles();
  moved_.resize(e.size());
  for (size_t i = 0; i < e.size(); ++i) moved_[i] = std::max(moved_[i], difference(e[i], m[i]));
}

void LayerError::add_steps(const Tensor& moved) {
  if (!moved.defined() || moved.dims() != expected_.dims() || !has_numbers(expected_)) return;
  const std::vector<double> e = expected_.to_doubles(), m = moved.to_doubles();
  steps_.resize(e.size());
  for (size_t i = 0; i < e.size(); ++i) {
    cancellation_point_at(i);
    const double step = difference(e[i], m[i]);
    if (std::isfinite(step)) steps_[i] = std::max(steps_[i], step);
  }
}

// What is left of the errors without what steps across edges may make of them.
std::vector<double> LayerError::errors_beyond_steps() const {
  std::vector<double> errors = expected_.to_doubles();
  const std::vector<double> a = actual_.to_doubles();
  for (size_t i = 0; i < errors.size(); ++i) {
    cancellation_point_at(i);
    errors[i] = difference(errors[i], a[i]);
    if (!steps_.empty()) errors[i] = std::max(errors[i] - one_step * steps_[i], 0.0);
  }
  return errors;
}

std::vector<double> LayerError::magnitudes() const {
  std::vector<double> found = expected_.to_doubles();
  for (double& e : found) e = std::isfinite(e) ? std::max(std::abs(e), compared_.unit()) : compared_.unit();
  return found;
}

double LayerError::undecided() const {
  if (compared_.exact && steps_.empty()) return 0;  // judge_exact() counts what one evaluation with noise changes
  if (moved_.empty() && steps_.empty()) return 0;
  const std::vector<double> scales = magnitudes();
  double count = 0;
  for (size_t i = 0; i < scales.size(); ++i) {
    const double moved = moved_.empty() ? 0 : moved_[i], step = steps_.empty() ? 0 : steps_[i];
    const double most = most_telling(tolerance_) * scales[i];
    const bool is_moved = compared_.exact ? moved > one_step * step : 4 * moved > most;
    count += is_moved || step > most ? 1 : 0;
  }
  return count;
}

LayerError::Verdict LayerError::judge_exact() const {
  const auto all = static_cast<double>(std::max<int64_t>(expected_.size(), 1));
  double moved = differing_ * all, differing = compared_.differing * all;
  const bool same_shape = expected_.dims() == actual_.dims();
  if (!steps_.empty() && same_shape) {
    const std::vector<double> errors = errors_beyond_steps();
    differing = static_cast<double>(std::count_if(errors.begin(), errors.end(), [](double e) { return e > 0; }));
    moved = 0;
    for (size_t i = 0; i < moved_.size(); ++i) moved += moved_[i] > one_step * steps_[i] ? 1 : 0;
  }
  const double excused = most_excused(moved, all);
  const double unsure = undecided();
  const bool telling =
      (moved == 0 || excused < all) && (unsure == 0 || most_excused(unsure, all) < all) && !other_shape_;
  if (!same_shape) return {telling, infinite, infinite, 0};
  if (!compared_.passed && compared_.differing == 0)  // numbers of floats in a sequence
    return {telling, ratio(compared_.relative(), tolerance_), compared_.max_error, 0};
  return {telling, ratio(differing, excused), compared_.max_error, 0};
}

// The actual numbers, as near to the reference's as steps across edges may bring them.
Tensor LayerError::without_steps() const {
  const std::vector<double> e = expected_.to_doubles(), a = actual_.to_doubles(), left = errors_beyond_steps();
  Tensor made(DType::f64, actual_.dims());
  for (size_t i = 0; i < e.size(); ++i)
    made.as_mutable<double>()[i] =
        steps_[i] == 0 || !std::isfinite(left[i]) ? a[i] : e[i] + std::copysign(left[i], a[i] - e[i]);
  return made;
}

LocalError LayerError::local() const {
  LocalError made(expected_, steps_.empty() ? actual_ : without_steps(), tolerance_, rounding_, compared_.unit(),
                  least_sentinel(expected_, actual_, rounding_), excused_);
  made.set_moved(moved_);
  return made;
}

double LayerError::local_part() const {
  return compared_.exact || expected_.dims() != actual_.dims() ? 0 : local().part();
}

std::string LayerError::where() const {
  return local().where();
}

LayerError::Verdict LayerError::judge() const {
  if (compared_.exact) return judge_exact();
  const double unit = compared_.unit();
  double unstable = 0;
  if (!moved_.empty()) {
    const std::vector<double> scales = magnitudes();
    for (size_t i = 0; i < scales.size(); ++i) unstable += 4 * moved_[i] > most_telling(tolerance_) * scales[i] ? 1 : 0;
  }
  const auto all = static_cast<double>(expected_.size());
  // Of few elements, as the 4 of a squeeze and excite, four others would be all.
  const auto excused_beside = [all](double some) {
    return std::floor(std::min(most_excused(some, all), std::max(all / 2, some + all / 8)));
  };
  const double most = excused_beside(unstable), unsure = undecided();
  // Of quotients by nearly 0, which rounding spreads the most, one in 30 is four times the largest of eight others.
  // Exponentials of sums and the like have no such tail: one that was wrong above 3 passed as the one that moved most.
  const double excused = jumps_ ? most : spreads_ ? std::min(most, std::ceil(unstable / 4)) : 0;
  Verdict verdict;
  verdict.telling = !other_shape_ && (unsure == 0 || excused_beside(unsure) < all);
  if (expected_.dims() != actual_.dims()) return {verdict.telling, infinite, infinite, 0};
  if (!verdict.telling || expected_.size() == 0) return verdict;
  const std::vector<double> e = expected_.to_doubles();
  const std::vector<double> errors = errors_beyond_steps();
  std::vector<Verdict> parts(e.size());
  for (size_t i = 0; i < e.size(); ++i) {
    cancellation_point_at(i);
    parts[i].error = errors[i];
    const double own =
        std::isfinite(e[i]) ? excused_ * rounding_ * std::abs(e[i]) : 0;  // also of numbers that mean "never"
    parts[i].part = ratio(errors[i], std::max({tolerance_ * unit, excused_ * (moved_.empty() ? 0 : moved_[i]), own}));
  }
  const auto decides = parts.begin() + static_cast<ptrdiff_t>(excused);
  std::nth_element(parts.begin(), decides, parts.end(), [](const auto& x, const auto& y) { return x.part > y.part; });
  verdict = *decides;
  verdict.local = local().part(static_cast<size_t>(excused));
  return verdict;
}

}  // namespace camshaft
