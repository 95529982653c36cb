// What connections are protected by.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/core/restricted_api.h"

namespace camshaft::server {

/// Of connections in the clear without a certificate. Throws ServerError(invalid_argument) for a file that cannot be
/// read, and for one that is missing.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files);

}  // namespace camshaft::server
