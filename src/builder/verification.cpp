#include "builder/verification.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/work_scope.h"
#include "runtime/context.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

OutputError different(const std::string& name, bool exact) {
  OutputError error;
  error.output = name;
  error.exact = exact;
  error.max_error = std::numeric_limits<double>::infinity();
  error.differing = exact ? 1 : 0;
  return error;
}

double least_sentinel(const std::vector<double>& expected, const std::vector<double>& actual, double rounding) {
  constexpr double beyond = 1e4;
  double most = 0;
  bool differs = false;
  for (size_t i = 0; i < expected.size(); ++i) {
    cancellation_point_at(i);
    const double e = expected[i];
    if (!std::isfinite(e) || std::abs(e - actual[i]) <= 4 * rounding * std::abs(e)) continue;
    most = std::max(most, std::abs(e));
    differs = true;
  }
  return differs ? beyond * std::max(1.0, most) : std::numeric_limits<double>::infinity();
}

// The largest number of the maps of a sequence: a classifier's rows, whose scores are of one scale, however small those
// of one row are.
double scale_of_maps(const Tensor& sequence) {
  double scale = 0;
  for (int64_t i = 0; i < sequence.size(); ++i) {
    const Tensor& map = sequence.element(i);
    if (!map.defined() || map.dtype() != DType::map || !is_floating(map.element(1).dtype())) continue;
    for (const double value : map.element(1).to_doubles())
      if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  }
  return scale;
}

// `least_scale`: what errors of floats are at least parts of.
OutputError compare(const std::string& name, const Tensor& expected, const Tensor& actual, double tolerance,
                    double rounding, double least_scale = 0) {
  OutputError error;
  error.output = name;
  error.exact = !is_floating(expected.dtype());
  if (expected.dtype() != actual.dtype() || expected.dims() != actual.dims()) return different(name, error.exact);
  if (is_container(expected.dtype())) {
    // The worst of its elements stands for all; a missing one counts as one that differs.
    error.passed = true;
    if (expected.dtype() == DType::sequence) least_scale = scale_of_maps(expected);
    for (int64_t i = 0; i < expected.size(); ++i) {
      const Tensor &e = expected.element(i), &a = actual.element(i);
      if (!e.defined() && !a.defined()) continue;
      const OutputError inner = e.defined() == a.defined() ? compare(name, e, a, tolerance, rounding, least_scale)
                                                           : different(name, error.exact);
      if (!inner.passed) error.passed = false;
      error.compared += inner.compared;
      error.differing = std::max(error.differing, inner.differing);
      if (!(inner.relative() > error.relative())) continue;
      error.max_error = inner.max_error;
      error.scale = inner.scale;
    }
    return error;
  }
  if (expected.dtype() == DType::string) {
    const auto *e = expected.as<std::string>(), *a = actual.as<std::string>();
    int64_t different_strings = 0;
    for (int64_t i = 0; i < expected.size(); ++i) different_strings += e[i] != a[i] ? 1 : 0;
    error.passed = different_strings == 0;
    error.compared = expected.size();
    if (error.passed) return error;
    error.max_error = std::numeric_limits<double>::infinity();
    error.differing = static_cast<double>(different_strings) / static_cast<double>(expected.size());
    return error;
  }
  const MemoryClaim claim(2 * sizeof(double) * static_cast<size_t>(expected.size()));
  const std::vector<double> e = expected.to_doubles(), a = actual.to_doubles();
  const double never = error.exact ? std::numeric_limits<double>::infinity() : least_sentinel(e, a, rounding);
  size_t differing = 0;
  error.scale = least_scale;
  for (size_t i = 0; i < e.size(); ++i) {
    cancellation_point_at(i);
    if (std::isfinite(e[i]) && std::abs(e[i]) >= never) continue;
    if (std::isfinite(e[i])) error.scale = std::max(error.scale, std::abs(e[i]));
    error.compared += std::isfinite(e[i]) ? 1 : 0;
    const double distance = difference(e[i], a[i]);
    differing += distance > 0 ? 1 : 0;
    error.max_error = std::max(error.max_error, distance);
  }
  if (error.exact && differing > 0) error.differing = static_cast<double>(differing) / static_cast<double>(e.size());
  error.passed = error.exact ? error.max_error == 0 : error.relative() <= tolerance;
  return error;
}

}  // namespace

double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double distance = std::abs(a - b);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

double least_sentinel(const Tensor& expected, const Tensor& actual, double rounding) {
  return least_sentinel(expected.to_doubles(), actual.to_doubles(), rounding);
}

std::vector<OutputError> compare_outputs(const std::vector<std::string>& names, const std::vector<Tensor>& expected,
                                         const std::vector<Tensor>& actual, double tolerance, double rounding) {
  std::vector<OutputError> errors;
  for (size_t i = 0; i < names.size(); ++i)
    errors.push_back(compare(names[i], expected[i], actual[i], tolerance, rounding));
  return errors;
}

std::vector<Tensor> run_once(const Engine& engine, const std::vector<Tensor>& inputs, int threads) {
  Context context = engine.create_context({threads});
  context.rehearse();
  for (size_t i = 0; i < inputs.size(); ++i) context.set_input(engine.inputs()[i].name, view_of(inputs[i]));
  context.run();
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : engine.outputs()) outputs.push_back(copy_of(context.output(info.name)));
  return outputs;
}

}  // namespace camshaft
