// The tensors of a model as its requests are checked by them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "camshaft/tensor.hpp"
#include "server/core/model_config.h"

namespace camshaft::server {

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;  ///< as clients give them, without the axis of the batch; -1: any size
  /// As the model itself has them, where that is another shape of as many elements.
  bool reshaped = false;
  Dims model_dims;
  bool optional = false;
  /// Requests of any shapes share a batch: the model takes all their elements in one row.
  bool ragged = false;
  int64_t most_elements = 0;  ///< of such a row, by the engine's profiles; 0: any number
  /// Of an output that the model makes in one row: the place of the input by whose shapes it is cut.
  std::optional<size_t> scattered_by;
};

/// Inputs that the server makes of how a batch is composed.
struct BatchInputSpec {
  inference::BatchInput::Kind kind = inference::BatchInput::BATCH_ELEMENT_COUNT;
  size_t source = 0;  ///< place of the input that it tells of
  DType dtype = DType::i32;
  std::vector<std::string> targets;  ///< the model's inputs, which all get it
};

struct Signature {
  std::string model;
  int64_t max_batch = 0;  ///< 0: tensors have no axis of a batch
  std::vector<TensorSpec> inputs, outputs;
  /// Inputs that the server itself adds: controls and states of sequences. In tensors by place they follow `inputs`.
  std::vector<TensorSpec> added;
  /// Outputs that the server keeps: states of sequences. They follow `outputs`, and clients do not see them.
  std::vector<TensorSpec> kept;
  /// Inputs that exist for batches alone, not for requests: they have no places.
  std::vector<BatchInputSpec> batch_inputs;

  const TensorSpec& input(size_t index) const {
    return index < inputs.size() ? inputs[index] : added[index - inputs.size()];
  }
  size_t input_count() const { return inputs.size() + added.size(); }
  const TensorSpec& output(size_t index) const {
    return index < outputs.size() ? outputs[index] : kept[index - outputs.size()];
  }
  size_t output_count() const { return outputs.size() + kept.size(); }
};

/// Of a completed configuration. Throws ServerError(invalid_argument) for shapes that cannot be one another's.
Signature make_signature(const ModelConfig& config);

/// What the model takes for a shape that fits `spec.dims`, without the axis of the batch.
Dims model_shape(const TensorSpec& spec, const Dims& client_shape);
/// The inverse for outputs: what clients read for a shape of the model's.
Dims client_shape(const TensorSpec& spec, const Dims& model_shape);

}  // namespace camshaft::server
