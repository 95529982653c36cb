// Requests for tests of what schedules them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/core/pending.h"

namespace camshaft::server {

/// Where a test finds what came of a request.
struct Answer {
  std::vector<Response> responses;
  bool done = false;
};

inline NamedTensor float_tensor(const std::string& name, Dims shape, float value) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  auto held = std::make_shared<std::vector<float>>(static_cast<size_t>(count), value);
  return {name, DType::f32, std::move(shape), {std::as_bytes(std::span(*held)), held}};
}

/// An input "x" of f32 [any, …].
inline Signature one_input(int64_t max_batch, Dims dims) {
  Signature signature;
  signature.model = "m";
  signature.max_batch = max_batch;
  TensorSpec spec;
  spec.name = "x";
  spec.dims = spec.model_dims = std::move(dims);
  signature.inputs = {spec};
  spec.name = "y";
  signature.outputs = {spec};
  return signature;
}

/// Of `batch` elements of `size` floats; queued at `queued`.
inline PendingPtr make_pending(ModelStatistics& statistics, const std::shared_ptr<Answer>& answer, int64_t batch,
                               int64_t size, Clock::time_point queued, float value = 0) {
  Request request;
  request.model = "m";
  request.inputs = {float_tensor("x", {batch, size}, value)};
  request.timeline.queued = queued;
  auto pending = std::make_unique<Pending>(
      std::move(request),
      [answer](Response response) {
        answer->done |= response.final;
        answer->responses.push_back(std::move(response));
      },
      statistics, nullptr);
  check_request(one_input(1 << 20, {-1}), *pending);
  return pending;
}

}  // namespace camshaft::server
