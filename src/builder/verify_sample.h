// An engine's results on one set of inputs, beside the reference's.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "base/thread_pool.h"
#include "builder/verification.h"
#include "builder/verification_sample.h"
#include "builder/verify_layers.h"

namespace camshaft {

/// What the reference evaluation with noise made of a sample: outputs by the seed of the noise, the noise of sums, and
/// EngineNoise::key().
using KnownNoise = std::map<std::tuple<uint64_t, double, std::string>, std::vector<Tensor>>;

struct SampleRules {
  double tolerance = 1e-4;
  double sensitivity_above = 1e-4, rounding_noise = 0x1p-22;  ///< see VerifyOptions
  uint64_t seed = 0;                                          ///< of noise
  Cancellation cancellation;
  /// The caller gave all inputs, if there are any: that no output has a finite number then is a warning, no error.
  bool inputs_are_given = false;
  double excused = usually_excused;   ///< see VerifyOptions
  bool names_culprit = true;          ///< look for the first layer that diverges where outputs do
  KnownNoise* known_noise = nullptr;  ///< of this sample: looked into, and added to
  double usual_tolerance = 0;         ///< see VerifyOptions
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
  /// sensitivity is more than most_telling(), or more than the usual tolerance and an output fails; where a
  /// part of an output may be wrong (OutputError::doubt), a step of a rounded number may explain what differs, more
  /// indices differ than may be excused but no more than four times what rounding decides, or no output has a finite
  /// number.
  bool by_layers = false;
  /// Also where noise explains outputs that pass, and of a failure, for its culprit, if that is asked for.
  LayersVerdict layers;
};

/// Runs `engine`, built from `model`, on a sample. Outputs pass within the tolerance, or within four times (`excused`)
/// what rounding noise does to the reference where that is more: to the numbers of a floating-point output, or to how
/// many elements of an exact one change (most_excused()). Within the tolerance, noise must explain so what is beyond a
/// small part of it. Noise is that of this engine (EngineNoise). Where it explains an output, no layer may be wrong.
/// Where outputs say too little, all pass or fail with the layers, see verify_layers().
SampleVerdict verify_sample(const Graph& model, const Engine& engine, const VerificationSample& sample,
                            const SampleRules& rules, ThreadPool& pool);

}  // namespace camshaft
