#include "server/http/http_server.h"

#include <vector>

#include "server/http/api.h"
#include "server/http/listener.h"
#include "server/http/tls_context.h"

namespace camshaft::server {

namespace {

namespace net = boost::asio;

constexpr std::chrono::seconds longest_stop{30};

HttpOptions checked(HttpOptions options) {
  if (options.threads < 1 || options.threads > 1024)
    throw ServerError(StatusCode::invalid_argument, "--http-thread-count is from 1 to 1024");
  if (options.max_input_size == 0)
    throw ServerError(StatusCode::invalid_argument, "--http-max-input-size must be greater than 0");
  if (options.metrics_address.empty()) options.metrics_address = options.address;
  return options;
}

}  // namespace

class HttpServer::State {
 public:
  State(Server& server, HttpOptions options)
      : service_(checked(std::move(options)), server.request_memory()),
        api_(server, service_),
        metrics_(server, service_.options) {
    if (service_.options.tls.enabled()) tls_ = make_tls_context(service_.options.tls);
    for (int i = 0; i < service_.options.threads; ++i) workers_.push_back(std::make_shared<HttpWorker>(service_));
  }

  void start() {
    const HttpOptions& options = service_.options;
    listener_ = std::make_shared<HttpListener>(workers_, api_, tls_.get());
    listener_->listen(options.address, options.port, options.reuse_port);
    if (options.metrics_port >= 0) {
      metrics_listener_ = std::make_shared<HttpListener>(workers_, metrics_, nullptr);
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
    for (auto* pool : {&service_.elsewhere, &service_.apart}) {
      pool->stop();
      pool->join();
    }
  }

  uint16_t port() const { return listener_ ? listener_->port() : 0; }
  uint16_t metrics_port() const { return metrics_listener_ ? metrics_listener_->port() : 0; }

 private:
  HttpService service_;
  HttpApi api_;
  MetricsApi metrics_;
  std::unique_ptr<net::ssl::context> tls_;
  std::vector<std::shared_ptr<HttpWorker>> workers_;
  std::shared_ptr<HttpListener> listener_, metrics_listener_;
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
