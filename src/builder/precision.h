// What an engine computes in, by what the build allows and the backend gains from.
#pragma once

#include "builder/builder.h"
#include "compile/backend.h"

namespace camshaft {

struct Precision {
  DType storage = DType::f32;                    ///< of tensors within the model
  ops::Rounding rounding = ops::Rounding::none;  ///< that products of f32 may do to their operands

  /// What it rounds to, as a part of each number (VerifyOptions::rounding_noise).
  double noise() const;
};

Precision choose_precision(const BuildOptions& options, const Backend& backend);

/// The options without fp16, bf16 and tf32 where the engine is computed without them all the same, as on a device that
/// does not gain from them: what it is judged by. bf16 allows errors of 0.1, where an engine in f32 makes 1e-6.
BuildOptions with_used_precisions(BuildOptions options, const Precision& used);

/// The options with `best` resolved to what the backend gains from. Throws Error(invalid_argument) for precisions that
/// contradict each other.
BuildOptions with_precisions(BuildOptions options, const Backend& backend);

}  // namespace camshaft
