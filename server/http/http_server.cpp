#include "server/http/http_server.h"

namespace camshaft::server {

class HttpServer::State {};
HttpServer::HttpServer(Server&, HttpOptions) {}
HttpServer::~HttpServer() = default;
void HttpServer::start() {}
void HttpServer::stop() {}
uint16_t HttpServer::port() const {
  return 0;
}
uint16_t HttpServer::metrics_port() const {
  return 0;
}

}  // namespace camshaft::server
