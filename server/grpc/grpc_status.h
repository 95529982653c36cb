// The statuses of gRPC for what goes wrong.
#pragma once

#include <grpcpp/support/status.h>

#include "server/core/status.h"

namespace camshaft::server {

grpc::Status grpc_status(const Status& status);
/// Of the exception that is being handled: call it in a catch block.
inline grpc::Status current_grpc_status() {
  return grpc_status(current_exception_status());
}

}  // namespace camshaft::server
