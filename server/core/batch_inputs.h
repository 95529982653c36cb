// Ragged batches: tensors that the server makes of how a batch is composed, and outputs that are cut by inputs' shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/core/pending.h"
#include "server/core/signature.h"

namespace camshaft::server {

/// A tensor of small numbers.
struct BatchTensor {
  Dims dims;
  std::vector<int64_t> values;
};

/// What `spec` says of a batch, whose requests all have the input that it is made of. Element counts are of a request's
/// whole tensor, with its axis of the batch; shapes are without it, one for each element along that axis.
BatchTensor make_batch_input(const BatchInputSpec& spec, const Signature& signature,
                             const std::vector<PendingPtr>& batch);

/// Writes them as i32, i64 or f32, in which a configuration may ask for them.
void write_batch_input(const BatchTensor& tensor, DType dtype, std::byte* to);

/// The shape of a request's part of a scattered output: what is dynamic is as the request's own input has it. Throws
/// ServerError(invalid_argument) where that has fewer axes.
Dims scattered_shape(const TensorSpec& output, const Signature& signature, const Pending& pending);

}  // namespace camshaft::server
