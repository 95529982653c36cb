// The calls that are not inference: what is asked of the server, its models, memory and settings.
#pragma once

#include "server/grpc/call.h"

namespace camshaft::server {

/// Waits for each of them at `queue`; who comes is answered, and the next is waited for. Loads and unloads run on
/// `context.workers`, all else on the queue's thread.
void accept_control(CallContext& context, grpc::ServerCompletionQueue& queue);

}  // namespace camshaft::server
