// What precisions that a build does not allow would gain.
#pragma once

#include <vector>

#include "builder/builder.h"
#include "builder/verification_sample.h"
#include "compile/backend.h"

namespace camshaft {

/// By the cost model: how many times as fast the model would run with each of the precisions that the backend has,
/// where that is a tenth or more. `model` has its meaning settled, `graph` is what it is optimised to in fp32. int8 is
/// reckoned for all layers that a calibration may quantise. What a precision costs is measured on `sample`, unless it
/// is null: by an engine with the tactics of the cost model, of int8 with the ranges that the sample itself has. That
/// is left out where it takes more than some seconds.
std::vector<PrecisionGain> precision_gains(const BuildOptions& options, const std::shared_ptr<const Backend>& backend,
                                           const Graph& model, const Graph& graph, const SymbolBindings& optimum,
                                           const VerificationSample* sample, ThreadPool& pool);

}  // namespace camshaft
