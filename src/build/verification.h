// Comparing an engine's results with a reference.
#pragma once

#include <string>
#include <vector>

#include "camshaft/builder.h"
#include "camshaft/tensor.h"
#include "graph/tensor.h"

namespace camshaft {

/// Errors of each output. Floats pass when OutputError::relative() <= tolerance; equal infinities and
/// NaNs in the same places count as equal, elsewhere the error is infinite. Integers, bools and strings must be
/// equal; `undecided` is left 0. Containers are compared element by element.
std::vector<OutputError> compare_outputs(const std::vector<std::string>& names, const std::vector<Tensor>& expected,
                                         const std::vector<Tensor>& actual, double tolerance);

/// Runs an engine once on host tensors (in the order of its inputs) and copies the results.
std::vector<Tensor> run_once(const Engine& engine, const std::vector<Tensor>& inputs, int threads);

}  // namespace camshaft
