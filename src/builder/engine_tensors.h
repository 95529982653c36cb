// What an engine computes between its inputs and its outputs, as the model has it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "compile/plan/plan.h"
#include "ir/graph.h"
#include "runtime/engine.h"

namespace camshaft {

/// A value of an engine's plan that its model has too.
struct SharedValue {
  const Node* node = nullptr;  ///< of the model, that computes it
  ValueId id = no_value;       ///< of the model
  int32_t planned = -1;        ///< of the plan
  const PlanStep* step = nullptr;
};

/// What steps of a plan made from `model` compute and store, and nodes of the model too, in the order of the steps.
/// Refers to both.
std::vector<SharedValue> shared_values(const Graph& model, const Plan& plan);

/// Tensors of one run of an engine that its model has too, by the model's names.
class EngineTensors {
 public:
  /// Runs `engine`, built from `model`, on its inputs, and keeps up to 4 GiB.
  EngineTensors(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs, ThreadPool& pool,
                const Cancellation& cancellation);

  const std::vector<Tensor>& outputs() const { return outputs_; }
  /// Gives a tensor away, as the model has it: with halves widened and channels-last images turned round where it is
  /// `expected` in f32 and channels-first. Undefined when none was kept, or one of another type or shape.
  struct Taken {
    Tensor tensor;
    double rounding = 0;  ///< what widening found it rounded to, as a part of each element
  };
  Taken take(const std::string& name, const Tensor& expected);
  /// The engine's layer that computed it, in words; empty when none was kept.
  std::string layer_of(const std::string& name) const;

 private:
  ThreadPool& pool_;
  std::map<std::string, std::string> layers_;
  std::map<std::string, Tensor> kept_;
  std::vector<Tensor> outputs_;
};

}  // namespace camshaft
