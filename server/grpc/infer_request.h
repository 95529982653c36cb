// From a ModelInferRequest to a request of the core.
#pragma once

#include <memory>

#include "server/core/request.h"
#include "server/core/shared_memory.h"
#include "server/grpc/infer_message.h"

namespace camshaft::server {

struct InferRequest {
  Request request;
  /// Of a decoupled model that ends without a last tensor the client wants to know that, too.
  bool enable_empty_final_response = false;
};

/// Tensors stay where the message has them, as long as a copy of `owner`; typed contents are converted. Throws
/// ServerError with Triton's messages where it has one.
InferRequest make_infer_request(const InferMessage& message, const std::shared_ptr<const void>& owner,
                                const SharedMemory& memory);

/// Whether a parameter of that name means something to the protocol: metadata may not bring it.
bool reserved_parameter(std::string_view name);

}  // namespace camshaft::server
