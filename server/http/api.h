// All routes of the protocol.
#pragma once

#include "server/core/metrics.h"
#include "server/core/restricted_api.h"
#include "server/http/handler.h"
#include "server/http/infer_call.h"
#include "server/http/worker.h"

namespace camshaft::server {

class HttpApi final : public HttpHandler {
 public:
  /// Throws ServerError(invalid_argument) for what is wrong with the options.
  HttpApi(Server& server, HttpService& service);
  std::optional<HttpReply> gate(const HttpExchange& exchange) override;
  void handle(const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  std::optional<HttpReply> refusal_of(const HttpExchange& exchange);

  Server& server_;
  HttpService& service_;
  InferContext infer_;
  BearerTokens tokens_;
};

/// What monitoring scrapes: /metrics.
class MetricsApi final : public HttpHandler {
 public:
  MetricsApi(Server& server, const HttpOptions& options) : metrics_(server, options.metrics) {}
  std::optional<HttpReply> gate(const HttpExchange& exchange) override;
  void handle(const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  Metrics metrics_;
};

}  // namespace camshaft::server
