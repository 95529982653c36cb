// An engine's results on one set of inputs, beside the reference's.
#pragma once

#include "base/thread_pool.h"
#include "builder/verification.h"
#include "builder/verification_sample.h"
#include "builder/verify_layers.h"

namespace camshaft {

struct SampleRules {
  double tolerance = 1e-4;
  double sensitivity_above = 1e-4, rounding_noise = 0x1p-22;  ///< see VerifyOptions
  uint64_t seed = 0;                                          ///< of noise
  Cancellation cancellation;
  /// The caller gave all inputs, if there are any: that no output has a finite number then is a warning, no error.
  bool inputs_are_given = false;
};

struct SampleVerdict {
  std::vector<OutputError> outputs;
  std::vector<Dims> input_shapes;
  bool passed = false;
  /// Why nothing could be judged: no seeded inputs were found that the reference evaluation accepts, or it gives no
  /// finite number, or of too many layers rounding decides the results. Empty otherwise.
  std::string unverified;
  /// How far the reference's own results move when the result of every operator moves by
  /// VerifyOptions::rounding_noise, over the output's scale; 0 unless some output's error was above
  /// VerifyOptions::sensitivity_above. A model that amplifies rounding like that cannot agree better.
  double sensitivity = 0;
  /// Whether the outputs say too little, and the engine was judged by `layers` instead: where four times the
  /// sensitivity is more than most_telling(), or more than the tolerance and yet an output differs by more; where a
  /// part of an output may be wrong (OutputError::doubt), a step of a rounded number may explain what differs, more
  /// indices differ than may be excused but no more than four times what rounding decides, or no output has a finite
  /// number.
  bool by_layers = false;
  /// Of a failure too, for its culprit.
  LayersVerdict layers;
};

/// Runs `engine`, built from `model`, on a sample. Outputs pass within the tolerance, or within four times what
/// rounding noise does to the reference where that is more: to the numbers of a floating-point output, or to how many
/// elements of an exact one change (most_excused()). Where that says too little, all pass or fail with the layers, see
/// verify_layers().
SampleVerdict verify_sample(const Graph& model, const Engine& engine, const VerificationSample& sample,
                            const SampleRules& rules, ThreadPool& pool);

}  // namespace camshaft
