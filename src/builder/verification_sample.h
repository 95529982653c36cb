// Inputs to verify a model on, and what the reference evaluation makes of them.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "ir/graph.h"

namespace camshaft {

struct SampleOptions {
  uint64_t seed = 0;
  std::map<std::string, Dims> shapes;     ///< of inputs; others as choose_input_shapes guesses
  std::map<std::string, Tensor> inputs;   ///< instead of seeded ones; their shapes need not be in `shapes`
  std::map<std::string, Tensor> settled;  ///< inputs that are neither drawn nor the caller's, of fixed shapes
  SymbolBindings symbols;                 ///< sizes to prefer: a profile's optimum
  Cancellation cancellation;
};

struct VerificationSample {
  std::vector<Dims> shapes;
  std::vector<Tensor> inputs;    ///< in the order of the model's inputs
  std::vector<Tensor> expected;  ///< the model's outputs
  uint64_t seed = 0;             ///< that they were drawn with, which may be another than was wanted
  std::string drawn;             ///< what floats are, in words; empty: standard normal
};

/// Tries several sizes for what nobody named until the reference evaluation accepts the inputs; else says why it
/// refused the first. Where an output of floats then has no finite number, as of logarithms and of roots, other numbers
/// are drawn: of few inputs by other seeds, then positive ones, ones below 1 and ones above it. Throws
/// Error(invalid_argument) when given inputs do not fit the model or are refused, Error(cancelled).
std::variant<VerificationSample, std::string> find_sample(const Graph& model, const SampleOptions& options,
                                                          ThreadPool& pool);

}  // namespace camshaft
