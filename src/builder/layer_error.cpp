#include "builder/layer_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace camshaft {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Where noise moves as many of the elements beyond most_telling(), comparing says nothing.
constexpr double most_undecided = 0.25;

bool has_numbers(const Tensor& tensor) {
  return !is_container(tensor.dtype()) && tensor.dtype() != DType::string;
}

std::vector<double> errors_between(const Tensor& expected, const Tensor& actual) {
  std::vector<double> errors = expected.to_doubles();
  const std::vector<double> a = actual.to_doubles();
  for (size_t i = 0; i < errors.size(); ++i) errors[i] = difference(errors[i], a[i]);
  return errors;
}

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
    return;
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
    const double step = difference(e[i], m[i]);
    if (std::isfinite(step)) steps_[i] = std::max(steps_[i], step);
  }
}

// Errors of a step become 0, where they are as few as rounding makes them.
void LayerError::excuse_steps(std::vector<double>& errors) const {
  if (steps_.empty()) return;
  constexpr double one_step = 1.001;  // steps are known to f32's precision
  std::vector<size_t> off;
  double moved = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (steps_[i] == 0) continue;
    if (errors[i] > 0 && errors[i] <= one_step * steps_[i]) off.push_back(i);
    if (!moved_.empty() && 2 * moved_[i] > steps_[i]) ++moved;
  }
  const auto all = static_cast<double>(errors.size());
  if (compared_.exact) moved = differing_ * all;
  if (static_cast<double>(off.size()) > std::max(1 + all / 64, most_excused(moved, all))) return;
  for (const size_t i : off) errors[i] = 0;
}

LayerError::Verdict LayerError::judge_exact() const {
  const auto all = static_cast<double>(std::max<int64_t>(expected_.size(), 1));
  const double excused = most_excused(differing_ * all, all);
  const bool telling = (differing_ == 0 || excused < all) && !other_shape_;
  if (expected_.dims() != actual_.dims()) return {telling, infinite, infinite, 0};
  double differing = compared_.differing * all;
  if (!compared_.passed && differing == 0)  // numbers of floats in a sequence
    return {telling, ratio(compared_.relative(), tolerance_), compared_.max_error, 0};
  if (!steps_.empty()) {
    std::vector<double> errors = errors_between(expected_, actual_);
    excuse_steps(errors);
    differing = static_cast<double>(std::count_if(errors.begin(), errors.end(), [](double e) { return e > 0; }));
  }
  return {telling, ratio(differing, excused), compared_.max_error, 0};
}

LocalError LayerError::local() const {
  LocalError made(expected_, actual_, tolerance_, rounding_, compared_.unit(),
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
  const auto unstable = static_cast<double>(
      std::count_if(moved_.begin(), moved_.end(), [&](double m) { return 4 * m > most_telling(tolerance_) * unit; }));
  const auto all = static_cast<double>(expected_.size());
  Verdict verdict;
  verdict.telling = !other_shape_ && (unstable == 0 || unstable < most_undecided * all);
  if (expected_.dims() != actual_.dims()) return {verdict.telling, infinite, infinite, 0};
  if (!verdict.telling || expected_.size() == 0) return verdict;
  const std::vector<double> e = expected_.to_doubles();
  std::vector<double> errors = errors_between(expected_, actual_);
  excuse_steps(errors);
  std::vector<Verdict> parts(e.size());
  for (size_t i = 0; i < e.size(); ++i) {
    parts[i].error = errors[i];
    const double own =
        std::isfinite(e[i]) ? excused_ * rounding_ * std::abs(e[i]) : 0;  // also of numbers that mean "never"
    parts[i].part = ratio(errors[i], std::max({tolerance_ * unit, excused_ * (moved_.empty() ? 0 : moved_[i]), own}));
  }
  const auto excused = static_cast<size_t>(most_excused(unstable, all));
  const auto decides = parts.begin() + static_cast<ptrdiff_t>(excused);
  std::nth_element(parts.begin(), decides, parts.end(), [](const auto& x, const auto& y) { return x.part > y.part; });
  verdict = *decides;
  // A step is more than a slice of small numbers may be off by.
  if (steps_.empty()) verdict.local = local().part(excused);
  return verdict;
}

}  // namespace camshaft
