// Comparing an engine's results with a reference.
#pragma once

#include <string>
#include <vector>

#include "base/work_scope.h"
#include "builder/builder.h"
#include "ir/tensor.h"
#include "runtime/tensor_view.h"

namespace camshaft {

/// To be called in loops over the elements of tensors, by the element: a cancellation_point() in each millisecond or
/// less.
inline void cancellation_point_at(size_t element) {
  if (element % (size_t{1} << 16) == 0) cancellation_point();
}

/// So many times what rounding alone moves a result by, it may differ from the reference.
constexpr double usually_excused = 4;

/// |a - b|; 0 for equal infinities and two NaNs, infinite where it is no number else.
double difference(double a, double b);

/// Errors of each output. Floats pass when OutputError::relative() <= tolerance; equal infinities and
/// NaNs in the same places count as equal, elsewhere the error is infinite. Integers, bools and strings must be
/// equal; `undecided` is left 0. Containers are compared element by element.
///
/// Masks leave numbers in outputs that mean "never", -1e9 or the least float: at their scale, errors of all the rest
/// would be nothing. So what agrees up to four times `rounding`, a part of the element, and lies four orders of
/// magnitude beyond 1 and beyond every element that does not agree so well, counts neither for scale nor for error.
std::vector<OutputError> compare_outputs(const std::vector<std::string>& names, const std::vector<Tensor>& expected,
                                         const std::vector<Tensor>& actual, double tolerance,
                                         double rounding = 0x1p-22);

/// The magnitude from which on elements of two tensors of floats mean "never"; infinite where none do.
double least_sentinel(const Tensor& expected, const Tensor& actual, double rounding);

/// Runs an engine once on host tensors (in the order of its inputs) and copies the results.
std::vector<Tensor> run_once(const Engine& engine, const std::vector<Tensor>& inputs, int threads);

}  // namespace camshaft
