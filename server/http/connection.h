// Connections of HTTP/1.1 and 1.0, plain and encrypted, by Boost.Beast.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "server/http/worker.h"

namespace camshaft::server {

/// Serves a connection that was accepted on a worker's thread: call start() there. A request's header is read first and
/// its body then straight into one buffer of its length; requests that come in before an answer is out wait for it.
/// Without `tls` it is plain; `refuse`: it is told that there is no room, and closed.
std::shared_ptr<ConnectionBase> make_connection(const std::shared_ptr<HttpWorker>& worker, HttpHandler& handler,
                                                boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls,
                                                bool refuse);

}  // namespace camshaft::server
