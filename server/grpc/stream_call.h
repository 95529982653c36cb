// ModelStreamInfer: any number of requests of one client and their responses, several for each from decoupled models.
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "server/grpc/call.h"

namespace camshaft::server {

class StreamCall;

/// Those that are open, so that they end with the server: a client may keep one for ever.
class StreamCalls {
 public:
  /// Ends `call` when stop() was called already.
  void add(const std::shared_ptr<StreamCall>& call);
  void remove(const StreamCall* call);
  /// All take no further requests, and end once those that were taken are answered.
  void stop();

 private:
  std::mutex mutex_;
  std::map<const StreamCall*, std::weak_ptr<StreamCall>> calls_;
  bool stopping_ = false;
};

/// Waits for a ModelStreamInfer at `queue`; whoever comes is served, and the next is waited for.
void accept_stream(CallContext& context, grpc::ServerCompletionQueue& queue);

}  // namespace camshaft::server
