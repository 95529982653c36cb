// Encrypted connections.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "server/core/restricted_api.h"

namespace camshaft::server {

/// TLS 1.2 and 1.3 with the server's certificate; where `files.mutual`, only for clients with one of its authorities.
/// Throws ServerError(invalid_argument) that names the file that cannot be used.
std::unique_ptr<boost::asio::ssl::context> make_tls_context(const TlsFiles& files);

}  // namespace camshaft::server
