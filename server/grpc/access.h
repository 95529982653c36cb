// Who may call what, and which metadata of a call its request gets.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <memory>

#include "server/core/request.h"
#include "server/core/restricted_api.h"
#include "server/grpc/grpc_options.h"

namespace re2 {
class RE2;
}

namespace camshaft::server {

/// Safe from several threads.
class Access {
 public:
  /// Throws ServerError(invalid_argument) for an expression that is none, and a file of tokens that cannot be read.
  explicit Access(const GrpcOptions& options);
  ~Access();

  /// UNAVAILABLE without the metadata that restricted parts ask for, as Triton has it; UNAUTHENTICATED without a token.
  grpc::Status check(const grpc::ServerContext& context, Api api);
  /// Adds the metadata that is to be forwarded. Throws ServerError(invalid_argument) for names that mean something
  /// else.
  void forward(const grpc::ServerContext& context, Parameters& parameters) const;

 private:
  RestrictedApis restricted_;
  BearerTokens tokens_;
  std::unique_ptr<const re2::RE2> forwarded_;  ///< null: none
};

}  // namespace camshaft::server
