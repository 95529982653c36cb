#include "server/http/http_server.h"

#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <vector>

#include "server/http/api.h"
#include "server/http/connection.h"
#include "server/http/tls_context.h"

namespace camshaft::server {

namespace {

namespace net = boost::asio;
using net::ip::tcp;

constexpr int accept_backlog = 1024;
constexpr std::chrono::milliseconds accept_pause{100};  // where there are no descriptors left
constexpr std::chrono::seconds longest_stop{30};

HttpOptions checked(HttpOptions options) {
  if (options.threads < 1 || options.threads > 1024)
    throw ServerError(StatusCode::invalid_argument, "--http-thread-count is from 1 to 1024");
  if (options.max_input_size == 0)
    throw ServerError(StatusCode::invalid_argument, "--http-max-input-size must be greater than 0");
  if (options.metrics_address.empty()) options.metrics_address = options.address;
  return options;
}

// Takes connections on the first worker's thread and hands them out to all in turn.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(const std::vector<std::shared_ptr<HttpWorker>>& workers, HttpHandler& handler, net::ssl::context* tls)
      : workers_(workers), handler_(handler), tls_(tls), acceptor_(workers[0]->io()), pause_(workers[0]->io()) {}

  void listen(const std::string& address, uint16_t port, bool reuse_port) {
    const auto failed = [&](const boost::system::error_code& error) {
      if (error)
        throw ServerError(StatusCode::unavailable,
                          "cannot listen at '" + address + ":" + std::to_string(port) + "': " + error.message());
    };
    boost::system::error_code error;
    const net::ip::address where = net::ip::make_address(address, error);
    failed(error);
    const tcp::endpoint endpoint(where, port);
    acceptor_.open(endpoint.protocol(), error), failed(error);
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error), failed(error);
    if (reuse_port)
      acceptor_.set_option(net::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>(true), error), failed(error);
    acceptor_.bind(endpoint, error), failed(error);
    acceptor_.listen(accept_backlog, error), failed(error);
    port_ = acceptor_.local_endpoint().port();
  }

  uint16_t port() const { return port_; }

  void accept() {
    const std::shared_ptr<HttpWorker> worker = workers_[next_++ % workers_.size()];
    acceptor_.async_accept(worker->io(),
                           [self = shared_from_this(), worker](boost::system::error_code error, tcp::socket socket) {
                             self->accepted(error, worker, std::move(socket));
                           });
  }

  void close() {
    net::post(acceptor_.get_executor(), [self = shared_from_this()] {
      boost::system::error_code ignored;
      self->closed_ = true;
      self->acceptor_.close(ignored);
      self->pause_.cancel();
    });
  }

 private:
  void accepted(boost::system::error_code error, const std::shared_ptr<HttpWorker>& worker, tcp::socket socket) {
    if (closed_ || error == net::error::operation_aborted) return;
    if (error) {
      pause_.expires_after(accept_pause);
      return pause_.async_wait([self = shared_from_this()](boost::system::error_code stopped) {
        if (!stopped) self->accept();
      });
    }
    const HttpService& service = worker->service();
    const bool refuse = service.connections >= service.options.max_connections;
    const auto connection = make_connection(worker, handler_, std::move(socket), tls_, refuse);
    net::post(worker->io(), [connection] { connection->start(); });
    accept();
  }

  const std::vector<std::shared_ptr<HttpWorker>>& workers_;
  HttpHandler& handler_;
  net::ssl::context* const tls_;
  tcp::acceptor acceptor_;
  net::steady_timer pause_;
  size_t next_ = 0;
  uint16_t port_ = 0;
  bool closed_ = false;
};

}  // namespace

class HttpServer::State {
 public:
  State(Server& server, HttpOptions options)
      : service_(checked(std::move(options))), api_(server, service_), metrics_(server, service_.options) {
    if (service_.options.tls.enabled()) tls_ = make_tls_context(service_.options.tls);
    for (int i = 0; i < service_.options.threads; ++i) workers_.push_back(std::make_shared<HttpWorker>(service_));
  }

  void start() {
    const HttpOptions& options = service_.options;
    listener_ = std::make_shared<Listener>(workers_, api_, tls_.get());
    listener_->listen(options.address, options.port, options.reuse_port);
    if (options.metrics_port >= 0) {
      metrics_listener_ = std::make_shared<Listener>(workers_, metrics_, nullptr);
      metrics_listener_->listen(options.metrics_address, static_cast<uint16_t>(options.metrics_port),
                                options.reuse_port);
    }
    for (const auto& worker : workers_) worker->start();
    listener_->accept();
    if (metrics_listener_) metrics_listener_->accept();
    started_ = true;
  }

  void stop() {
    if (!std::exchange(started_, false)) return;
    listener_->close();
    if (metrics_listener_) metrics_listener_->close();
    for (const auto& worker : workers_) worker->stop();
    for (const auto& worker : workers_) worker->join(longest_stop);
    service_.elsewhere.stop();
    service_.elsewhere.join();
  }

  uint16_t port() const { return listener_ ? listener_->port() : 0; }
  uint16_t metrics_port() const { return metrics_listener_ ? metrics_listener_->port() : 0; }

 private:
  HttpService service_;
  HttpApi api_;
  MetricsApi metrics_;
  std::unique_ptr<net::ssl::context> tls_;
  std::vector<std::shared_ptr<HttpWorker>> workers_;
  std::shared_ptr<Listener> listener_, metrics_listener_;
  bool started_ = false;
};

HttpServer::HttpServer(Server& server, HttpOptions options)
    : state_(std::make_unique<State>(server, std::move(options))) {}
HttpServer::~HttpServer() {
  state_->stop();
}
void HttpServer::start() {
  state_->start();
}
void HttpServer::stop() {
  state_->stop();
}
uint16_t HttpServer::port() const {
  return state_->port();
}
uint16_t HttpServer::metrics_port() const {
  return state_->metrics_port();
}

}  // namespace camshaft::server
