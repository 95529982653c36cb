#include "server/grpc/grpc_status.h"

namespace camshaft::server {
namespace {

grpc::StatusCode grpc_code(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return grpc::StatusCode::OK;
    case StatusCode::unknown:
      return grpc::StatusCode::UNKNOWN;
    case StatusCode::internal:
      return grpc::StatusCode::INTERNAL;
    case StatusCode::not_found:
      return grpc::StatusCode::NOT_FOUND;
    case StatusCode::invalid_argument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case StatusCode::unavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case StatusCode::unsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case StatusCode::already_exists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case StatusCode::cancelled:
      return grpc::StatusCode::CANCELLED;
    case StatusCode::resource_exhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case StatusCode::permission_denied:
      return grpc::StatusCode::PERMISSION_DENIED;
  }
  return grpc::StatusCode::UNKNOWN;
}

}  // namespace

grpc::Status grpc_status(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // Messages travel in an HTTP/2 header, of which clients take 8 KiB.
  constexpr size_t longest = 4096;
  return {grpc_code(status.code),
          status.message.size() <= longest ? status.message : status.message.substr(0, longest) + "…"};
}

}  // namespace camshaft::server
