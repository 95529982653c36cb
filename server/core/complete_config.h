// Configurations that leave out what the model says itself.
#pragma once

#include <optional>
#include <vector>

#include "camshaft/report.hpp"
#include "server/core/model_config.h"

namespace camshaft::server {

/// What a model's file says of itself.
struct ModelFacts {
  std::vector<TensorInfo> inputs, outputs;  ///< sizes -1 where they are dynamic
  std::optional<int64_t> most_batch;        ///< by its profiles
  int64_t default_batch = 4;                ///< max_batch_size where nothing says one
};

/// Fills in inputs, outputs and max_batch_size as Triton does: where all tensors' first axes are dynamic, that axis is
/// the batch. What is given is checked against the model. Throws ServerError(invalid_argument), naming model, tensor,
/// and both shapes. `strict`: nothing is filled in.
void complete_tensors(ModelConfig& config, const ModelFacts& facts, bool strict);

/// Fills in what does not depend on the model's file: version_policy, dynamic_batching for max_batch_size > 1, an
/// instance group of `kind`.
void complete_defaults(ModelConfig& config, inference::ModelInstanceGroup::Kind kind, bool strict);

}  // namespace camshaft::server
