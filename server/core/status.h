// What goes wrong with a request, in the terms of both protocols.
#pragma once

#include <stdexcept>
#include <string>

namespace camshaft::server {

/// Each has one status of HTTP and one of gRPC: http/http_status.h and grpc/grpc_status.h.
enum class StatusCode { ok, unknown, internal, not_found, invalid_argument, unavailable, unsupported, already_exists, cancelled, resource_exhausted, permission_denied };

struct Status {
  StatusCode code = StatusCode::ok;
  std::string message;
  bool ok() const { return code == StatusCode::ok; }
};

/// What the server throws: `what()` is the message that the client reads. It names the model, the tensor and the way out.
class ServerError : public std::runtime_error {
 public:
  ServerError(StatusCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  StatusCode code() const { return code_; }
  Status status() const { return {code_, what()}; }

 private:
  StatusCode code_;
};

/// The status of the exception that is being handled: a ServerError's own, an Error's of Camshaft by its code, memory
/// that is not there as resource_exhausted, anything else as internal. Call it in a catch block.
Status current_exception_status();

}  // namespace camshaft::server
