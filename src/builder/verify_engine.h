// The check at the end of every build.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "base/thread_pool.h"
#include "builder/verification.h"
#include "builder/verify_sample.h"
#include "ir/graph.h"

namespace camshaft {

/// What the reference evaluation made of samples, by their description, for a second look at the same model: their
/// outputs, or why it refused them, and what noise makes of the outputs.
struct KnownReference {
  std::map<std::string, std::variant<VerificationSample, std::string>> samples;
  std::map<std::string, KnownNoise> noise;

  /// A sample that the reference accepted; null where there is none.
  const VerificationSample* sample() const;
};

struct VerifyOptions {
  double tolerance = 1e-4;
  /// Relative error above which the sensitivity is asked for; the tolerance when that is smaller.
  double sensitivity_above = 1e-4;
  /// What storing a result may move it by, as a part of itself: 2^-22 in f32, a few units in the last place, as sums of
  /// many terms in another order have; 2^-11 in f16 and TF32, 2^-8 in bf16.
  double rounding_noise = 0x1p-22;
  /// So many times what rounding moves may differ: 4, and less with a tolerance below the default one.
  double excused = usually_excused;
  /// The default tolerance of this precision, whatever `tolerance` is: which judge a failure goes to depends on it, so
  /// that no engine fails by one tolerance that a smaller one accepts. 0: `tolerance` is the default.
  double usual_tolerance = 0;
  uint64_t seed = 0;
  std::map<std::string, Dims> shapes;    ///< of inputs; others as choose_input_shapes guesses
  std::map<std::string, Tensor> inputs;  ///< instead of seeded ones; their shapes need not be in `shapes`
  /// Further sets of inputs, judged as further samples are.
  std::vector<std::map<std::string, Tensor>> further_inputs = {};
  /// How many adapters the engine has (runtime/adapters.h): it is judged with each of them, and with none, on a seed of
  /// its own, unless `inputs` have the input that chooses one.
  int64_t adapters = 0;
  /// For samples beside the first, which are judged as long as they are expected to fit, by their work and what the
  /// first took.
  double seconds = 10;
  Cancellation cancellation = {};
  KnownReference* known = nullptr;  ///< looked into, and added to
  bool names_culprit = true;        ///< look for the first layer that diverges where outputs do
};

/// All samples together: as the first one that failed, or with the worst of each output.
struct VerifyResult : SampleVerdict {
  std::vector<SampleVerdict> of_samples;
  std::vector<std::string> samples;   ///< the same in words: seed and shapes
  std::vector<std::string> left_out;  ///< what the engine is to take and was not judged on, and why
};

/// Runs `engine` and the reference evaluation of `model` (the graph as imported) on the same inputs: on given ones, or
/// on seeded ones at the sizes that tactics were chosen for, and then at further_points(), until one fails. Where no
/// inputs are given for all of the model's, `options.shapes` and given inputs stay, and only seeds vary. Throws
/// Error(invalid_argument) when given inputs do not fit the model or the reference refuses them.
VerifyResult verify_engine(const Graph& model, const Engine& engine, const VerifyOptions& options, ThreadPool& pool);

}  // namespace camshaft
