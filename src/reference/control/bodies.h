// What the evaluations of operators with bodies share: how to run one, and what to make of its results. Internal to
// control/.
#pragma once

#include <vector>

#include "reference/evaluate.h"

namespace camshaft::ops {

/// A body may return what it was given. The caller's tensors are often views of memory that is used again.
void own_results(std::vector<Tensor>& results);

EvaluateOptions body_options(const EvalContext& context);

/// One run of a body. `options` are body_options(), in which it draws other noise.
std::vector<Tensor> run_body(const EvalContext& context, const Graph& body, const std::vector<Tensor>& inputs,
                             EvaluateOptions& options);

/// What iterations gave, along a new axis; there must be at least one. Throws Error(invalid_argument) when the shapes
/// differ.
Tensor stack(const EvalContext& context, std::vector<Tensor> parts, int64_t axis);

/// What is collected when a body never ran: sizes that no iteration has told are 0.
Tensor empty_result(const EvalContext& context, const TensorType& type);

}  // namespace camshaft::ops
