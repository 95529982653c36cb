#include "build/verification.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "camshaft/context.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

OutputError different() {
  OutputError error;
  error.max_error = std::numeric_limits<double>::infinity();
  return error;
}

OutputError compare(const std::string& name, const Tensor& expected, const Tensor& actual, double tolerance) {
  OutputError error;
  error.output = name;
  error.exact = !is_floating(expected.dtype());
  if (expected.dtype() != actual.dtype() || expected.dims() != actual.dims()) {
    error.max_error = std::numeric_limits<double>::infinity();
    return error;
  }
  if (is_container(expected.dtype())) {
    // The worst of its elements stands for all; a missing one counts as one that differs.
    error.passed = true;
    for (int64_t i = 0; i < expected.size(); ++i) {
      const Tensor &e = expected.element(i), &a = actual.element(i);
      if (!e.defined() && !a.defined()) continue;
      const OutputError inner = e.defined() == a.defined() ? compare(name, e, a, tolerance) : different();
      if (!inner.passed) error.passed = false;
      if (!(inner.relative() > error.relative())) continue;
      error.max_error = inner.max_error;
      error.scale = inner.scale;
    }
    return error;
  }
  if (expected.dtype() == DType::string) {
    error.passed = expected == actual;
    error.max_error = error.passed ? 0 : std::numeric_limits<double>::infinity();
    return error;
  }
  const std::vector<double> e = expected.to_doubles(), a = actual.to_doubles();
  for (size_t i = 0; i < e.size(); ++i) {
    if (std::isfinite(e[i])) error.scale = std::max(error.scale, std::abs(e[i]));
    if (e[i] == a[i] || (std::isnan(e[i]) && std::isnan(a[i]))) continue;
    const double difference = std::abs(e[i] - a[i]);
    error.max_error =
        std::max(error.max_error, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  error.passed = error.exact ? error.max_error == 0 : error.relative() <= tolerance;
  return error;
}

}  // namespace

std::vector<OutputError> compare_outputs(const std::vector<std::string>& names, const std::vector<Tensor>& expected,
                                         const std::vector<Tensor>& actual, double tolerance) {
  std::vector<OutputError> errors;
  for (size_t i = 0; i < names.size(); ++i) errors.push_back(compare(names[i], expected[i], actual[i], tolerance));
  return errors;
}

std::vector<Tensor> run_once(const Engine& engine, const std::vector<Tensor>& inputs, int threads) {
  Context context = engine.create_context({threads});
  for (size_t i = 0; i < inputs.size(); ++i) context.set_input(engine.inputs()[i].name, view_of(inputs[i]));
  context.run();
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : engine.outputs()) outputs.push_back(copy_of(context.output(info.name)));
  return outputs;
}

}  // namespace camshaft
