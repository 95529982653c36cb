// The check at the end of every build.
#pragma once

#include <map>

#include "base/thread_pool.h"
#include "builder/verification.h"
#include "builder/verify_layers.h"
#include "ir/graph.h"

namespace camshaft {

struct VerifyOptions {
  double tolerance = 1e-4;
  /// Relative error above which the sensitivity is asked for; the tolerance when that is smaller.
  double sensitivity_above = 1e-4;
  /// What storing a result may move it by, as a part of itself: 2^-22 in f32, a few units in the last place, as sums of
  /// many terms in another order have; 2^-11 in f16 and TF32, 2^-8 in bf16.
  double rounding_noise = 0x1p-22;
  uint64_t seed = 0;
  std::map<std::string, Dims> shapes;    ///< of inputs; others as choose_input_shapes guesses
  std::map<std::string, Tensor> inputs;  ///< instead of seeded ones; their shapes need not be in `shapes`
  Cancellation cancellation;
};

struct VerifyResult {
  std::vector<OutputError> outputs;
  std::vector<Dims> input_shapes;
  bool passed = false;
  /// Why no seeded inputs could be found that the reference evaluation accepts; empty when some were.
  std::string unverified;
  /// How far the reference's own results move when the result of every operator moves by
  /// VerifyOptions::rounding_noise, over the output's scale; 0 unless some output's error was above
  /// VerifyOptions::sensitivity_above. A model that amplifies rounding like that cannot agree better.
  double sensitivity = 0;
  /// Whether the outputs say nothing, and the engine was judged by `layers` instead: four times that is more than
  /// most_telling(), or more than the tolerance and yet an output differs by more.
  bool by_layers = false;
  /// Of a failure too, for its culprit.
  LayersVerdict layers;
};

/// Runs `engine` and the reference evaluation of `model` (the graph as imported) on the same seeded inputs. Outputs
/// pass within the tolerance, or within four times what rounding noise does to the reference where that is more: to the
/// numbers of a floating-point output, or to how many elements of an exact one change. Where that would let nonsense
/// pass, or noise happened to miss what it can do, all pass or fail with the layers, see verify_layers(). Throws
/// Error(invalid_argument) when given inputs do not fit the model or the reference refuses them.
VerifyResult verify_engine(const Graph& model, const Engine& engine, const VerifyOptions& options, ThreadPool& pool);

}  // namespace camshaft
