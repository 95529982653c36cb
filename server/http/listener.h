// Where connections come from.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "server/http/worker.h"

namespace camshaft::server {

/// Takes connections on the first worker's thread and hands them out to all in turn.
class HttpListener : public std::enable_shared_from_this<HttpListener> {
 public:
  HttpListener(const std::vector<std::shared_ptr<HttpWorker>>& workers, HttpHandler& handler,
               boost::asio::ssl::context* tls);
  /// Throws ServerError(unavailable), naming the address.
  void listen(const std::string& address, uint16_t port, bool reuse_port);
  uint16_t port() const { return port_; }
  void accept();
  /// Safe from any thread.
  void close();

 private:
  void accepted(boost::system::error_code error, const std::shared_ptr<HttpWorker>& worker,
                boost::asio::ip::tcp::socket socket);

  const std::vector<std::shared_ptr<HttpWorker>>& workers_;
  HttpHandler& handler_;
  boost::asio::ssl::context* const tls_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  size_t next_ = 0;
  uint16_t port_ = 0;
  bool closed_ = false;
};

}  // namespace camshaft::server
