// The smallest part of a model that still goes wrong.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/thread_pool.h"
#include "ir/tensor.h"
#include "onnx/proto.h"

namespace camshaft {

/// A model and the inputs to run it on, by name.
struct ModelOnInputs {
  onnx::ModelProto model;
  std::map<std::string, Tensor> inputs;
};

/// Takes nodes out of the model's graph for as long as `fails` says of the rest that it goes wrong as the whole does:
/// delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002). What the rest
/// reads of the nodes taken out becomes inputs of it, with the values that the reference evaluation gives them; what
/// nobody reads becomes an output. Returns the model itself when no part of it fails. The returned model is valid as
/// long as the storage of `whole.model`. Throws Error when the reference evaluation refuses the model or its inputs.
ModelOnInputs reduce_model(const ModelOnInputs& whole, const std::function<bool(const ModelOnInputs&)>& fails,
                           ThreadPool& pool);

}  // namespace camshaft
