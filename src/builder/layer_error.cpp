#include "builder/layer_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace camshaft {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double ratio(double found, double allowed) {
  if (found == 0) return 0;
  return allowed > 0 ? found / allowed : infinite;
}

}  // namespace

double most_telling(double tolerance) {
  return std::max(0.1, tolerance);
}

LayerError::LayerError(Tensor expected, Tensor actual, double tolerance, double rounding)
    : expected_(std::move(expected)),
      actual_(std::move(actual)),
      tolerance_(tolerance),
      rounding_(rounding),
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

LayerError::Verdict LayerError::judge() const {
  if (compared_.exact && !other_shape_) return {true, ratio(compared_.differing, 4 * differing_), compared_.max_error};
  const double unit = compared_.unit();
  const auto unstable =
      std::count_if(moved_.begin(), moved_.end(), [&](double m) { return 4 * m > most_telling(tolerance_) * unit; });
  Verdict verdict;
  verdict.telling = !other_shape_ && (unstable == 0 || 4 * unstable < expected_.size());
  if (expected_.dims() != actual_.dims()) return {verdict.telling, infinite, infinite};
  if (!verdict.telling) return verdict;
  const std::vector<double> e = expected_.to_doubles(), a = actual_.to_doubles();
  std::vector<Verdict> all(e.size());
  for (size_t i = 0; i < e.size(); ++i) {
    all[i].error = difference(e[i], a[i]);
    const double own = std::isfinite(e[i]) ? 4 * rounding_ * std::abs(e[i]) : 0;  // also of numbers that mean "never"
    all[i].part = ratio(all[i].error, std::max({tolerance_ * unit, 4 * (moved_.empty() ? 0 : moved_[i]), own}));
  }
  const auto decides = all.begin() + 4 * unstable;
  std::nth_element(all.begin(), decides, all.end(), [](const Verdict& x, const Verdict& y) { return x.part > y.part; });
  return *decides;
}

}  // namespace camshaft
