// What the evaluations of operators share whose parameters are data: each makes a static operator and evaluates it.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace camshaft::ops {

/// Runs the shape rule and the reference evaluation of an operator on tensors. Throws what these throw.
std::vector<Tensor> evaluate_static(const Op& op, const std::vector<Tensor>& inputs, size_t outputs, ThreadPool& pool);

/// A 1-D or single i64 or i32 tensor of axes as axes of a tensor of rank `rank`: counted from the front, in their
/// order. Throws Error(invalid_argument) for one that does not exist or is named twice.
std::vector<int64_t> read_axes(const Tensor& axes, int64_t rank);

}  // namespace camshaft::ops
