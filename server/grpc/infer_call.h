// ModelInfer: one request, one response.
#pragma once

#include "server/grpc/call.h"

namespace camshaft::server {

/// Waits for a ModelInfer at `queue`; whoever comes is answered, and the next is waited for.
void accept_infer(CallContext& context, grpc::ServerCompletionQueue& queue);

/// A message in one piece: where gRPC has it in several, which large ones are, it is copied once.
class MessageBytes {
 public:
  /// Throws ServerError: resource_exhausted where requests take all that they may, invalid_argument for a compressed
  /// message that is damaged.
  MessageBytes(grpc::ByteBuffer& buffer, RequestMemory& memory);
  std::span<const std::byte> span() const {
    return {reinterpret_cast<const std::byte*>(slice_->begin()), slice_->size()};
  }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const grpc::Slice> slice_;
  std::shared_ptr<const void> owner_;
};

/// The names of the outputs that are to lie in the client's memory.
std::vector<std::string> shared_outputs(const Request& request);

}  // namespace camshaft::server
