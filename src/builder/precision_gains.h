// What precisions that a build does not allow would gain.
#pragma once

#include <chrono>
#include <vector>

#include "builder/builder.h"
#include "builder/verification_sample.h"
#include "compile/backend.h"

namespace camshaft {

/// For what one precision costs. The cost model's tactics may be bad ones: of a dilated convolution of 600x600x600
/// voxels and one channel, 380 bytes of model, int8 alone took minutes beside 80 s for all else.
inline constexpr std::chrono::milliseconds usual_time_for_error{5000};

/// By the cost model: how many times as fast the model would run with each of the precisions that the backend has,
/// where that is a tenth or more. `model` has its meaning settled, `graph` is what it is optimised to in fp32. int8 is
/// reckoned for all layers that a calibration may quantise. What a precision costs is measured on `sample`, unless it
/// is null: by an engine with the tactics of the cost model, of int8 with the ranges that the sample itself has. That
/// is left out where it takes more than `time_for_error`.
std::vector<PrecisionGain> precision_gains(const BuildOptions& options, const std::shared_ptr<const Backend>& backend,
                                           const Graph& model, const Graph& graph, const SymbolBindings& optimum,
                                           const VerificationSample* sample, ThreadPool& pool,
                                           std::chrono::milliseconds time_for_error = usual_time_for_error);

}  // namespace camshaft
