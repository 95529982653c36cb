#include "server/http/listener.h"

#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>

#include "server/http/connection.h"

namespace camshaft::server {

namespace {

namespace net = boost::asio;
using net::ip::tcp;

constexpr int accept_backlog = 1024;
constexpr std::chrono::milliseconds accept_pause{100};  // where there are no descriptors left

}  // namespace

HttpListener::HttpListener(const std::vector<std::shared_ptr<HttpWorker>>& workers, HttpHandler& handler,
                           net::ssl::context* tls)
    : workers_(workers), handler_(handler), tls_(tls), acceptor_(workers[0]->io()), pause_(workers[0]->io()) {}

void HttpListener::listen(const std::string& address, uint16_t port, bool reuse_port) {
  const auto failed = [&](const boost::system::error_code& error) {
    if (error)
      throw ServerError(StatusCode::unavailable,
                        "cannot listen at '" + address + ":" + std::to_string(port) + "': " + error.message());
  };
  boost::system::error_code error;
  const net::ip::address where = net::ip::make_address(address, error);
  failed(error);
  const tcp::endpoint endpoint(where, port);
  acceptor_.open(endpoint.protocol(), error);
  failed(error);
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  failed(error);
  if (reuse_port) acceptor_.set_option(net::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>(true), error);
  failed(error);
  acceptor_.bind(endpoint, error);
  failed(error);
  acceptor_.listen(accept_backlog, error);
  failed(error);
  port_ = acceptor_.local_endpoint().port();
}

void HttpListener::accept() {
  const std::shared_ptr<HttpWorker> worker = workers_[next_++ % workers_.size()];
  acceptor_.async_accept(worker->io(),
                         [self = shared_from_this(), worker](boost::system::error_code error, tcp::socket socket) {
                           self->accepted(error, worker, std::move(socket));
                         });
}

void HttpListener::close() {
  net::post(acceptor_.get_executor(), [self = shared_from_this()] {
    boost::system::error_code ignored;
    self->closed_ = true;
    self->acceptor_.close(ignored);
    self->pause_.cancel();
  });
}

void HttpListener::accepted(boost::system::error_code error, const std::shared_ptr<HttpWorker>& worker,
                            tcp::socket socket) {
  if (closed_ || error == net::error::operation_aborted) return;
  if (error) {
    pause_.expires_after(accept_pause);
    pause_.async_wait([self = shared_from_this()](boost::system::error_code stopped) {
      if (!stopped) self->accept();
    });
    return;
  }
  const HttpService& service = worker->service();
  const bool refuse = service.connections >= service.options.max_connections;
  const auto connection = make_connection(worker, handler_, std::move(socket), tls_, refuse);
  net::post(worker->io(), [connection] { connection->start(); });
  accept();
}

}  // namespace camshaft::server
