#include "builder/local_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace camshaft {

namespace {

constexpr size_t least_slice = 16, least_elements = 8;
// Of all elements, so many must be right at their own magnitude.
constexpr double judged_quantile = 0.75;

double quantile(std::vector<double> values, size_t excused) {
  const size_t left = values.size() - std::min(values.size() - 1, excused);
  const auto at = values.begin() + static_cast<ptrdiff_t>(judged_quantile * static_cast<double>(left - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double local_tolerance(double tolerance) {
  return std::max(tolerance, std::min(10 * tolerance, 0.2));
}

LocalError::LocalError(const Tensor& expected, const Tensor& actual, double tolerance, double rounding, double unit,
                       double never, double excused)
    : expected_(expected.to_doubles()),
      errors_(actual.to_doubles()),
      tolerance_(local_tolerance(tolerance)),
      // What f32 rounds to at the scale of the whole, and f16 near 0, where its steps are 2^-24.
      least_(std::max(0x1p-20 * unit, rounding >= 0x1p-11 ? 0x1p-22 : 0)),
      never_(never),
      excused_(excused) {
  for (size_t i = 0; i < errors_.size(); ++i) {
    cancellation_point_at(i);
    errors_[i] = difference(expected_[i], errors_[i]);
  }
  const Dims& dims = expected.dims();
  size_t inner = expected_.size();
  for (size_t axis = 0; axis < dims.size() && !expected_.empty(); ++axis) {
    const auto size = static_cast<size_t>(dims[axis]);
    inner /= size;
    if (size < 2 || expected_.size() / size < least_slice) continue;
    const std::vector<double> none(size);
    Axis& made = axes_.emplace_back(Axis{axis, size, inner, none, none, none});
    for_each(made, [&](size_t index, size_t i) {
      made.scale[index] = std::max(made.scale[index], std::abs(expected_[i]));
      made.error[index] = std::max(made.error[index], errors_[i]);
    });
  }
}

template <class Function>
void LocalError::for_each(const Axis& axis, const Function& function) const {
  for (size_t i = 0; i < expected_.size();)
    for (size_t index = 0; index < axis.size; ++index)
      for (const size_t end = i + axis.inner; i < end; ++i) {
        cancellation_point_at(i);
        if (counts(i)) function(index, i);
      }
}

void LocalError::set_moved(const std::vector<double>& moved) {
  moved_ = moved;
  if (moved_.empty()) return;
  for (Axis& a : axes_) {
    std::fill(a.moved.begin(), a.moved.end(), 0);
    for_each(a, [&](size_t index, size_t i) { a.moved[index] = std::max(a.moved[index], moved_[i]); });
  }
}

bool LocalError::counts(size_t i) const {
  return std::isfinite(expected_[i]) && std::isfinite(errors_[i]) && std::abs(expected_[i]) < never_;
}

double LocalError::slice_part(const Axis& axis, size_t index, double error) const {
  return error / std::max({tolerance_ * axis.scale[index], excused_ * axis.moved[index], least_});
}

double LocalError::elements_part(size_t excused) const {
  // Of many elements some tell as much, at a distance that is no multiple of an axis.
  constexpr size_t most_looked_at = 1 << 17;
  const size_t step = errors_.size() <= most_looked_at ? 1 : (errors_.size() / most_looked_at) | 1;
  std::vector<double> errors, moved;
  for (size_t i = 0; i < errors_.size(); i += step) {
    if (!counts(i)) continue;
    const double magnitude = std::max(std::abs(expected_[i]), std::numeric_limits<double>::min());
    errors.push_back(errors_[i] <= least_ ? 0 : errors_[i] / magnitude);
    if (!moved_.empty()) moved.push_back(moved_[i] / magnitude);
  }
  if (errors.size() < least_elements) return 0;
  excused /= step;
  const double noise = moved.empty() ? 0 : quantile(std::move(moved), excused);
  return quantile(std::move(errors), excused) / std::max(tolerance_, excused_ * noise);
}

double LocalError::part(size_t excused) const {
  double most = elements_part(excused);
  if (excused == 0) {
    for (const Axis& a : axes_)
      for (size_t index = 0; index < a.size; ++index) most = std::max(most, slice_part(a, index, a.error[index]));
    return most;
  }
  std::vector<double> parts(errors_.size());
  for (const Axis& a : axes_)
    for_each(a, [&](size_t index, size_t i) { parts[i] = std::max(parts[i], slice_part(a, index, errors_[i])); });
  if (excused >= parts.size()) return most;
  const auto at = parts.begin() + static_cast<ptrdiff_t>(excused);
  std::nth_element(parts.begin(), at, parts.end(), std::greater<>());
  return std::max(most, *at);
}

std::string LocalError::where() const {
  double most = elements_part(0);
  std::string text = "a quarter of the elements or more, each at its own magnitude";
  for (const Axis& a : axes_)
    for (size_t index = 0; index < a.size; ++index) {
      const double part = slice_part(a, index, a.error[index]);
      if (part <= most) continue;
      most = part;
      text = fmt::format("index {} of axis {}: error {:.3g} of its scale {:.3g}", index, a.axis, a.error[index],
                         a.scale[index]);
    }
  return text;
}

}  // namespace camshaft
