// What answers requests, whatever they came through.
#pragma once

#include <memory>
#include <optional>

#include "server/http/exchange.h"

namespace camshaft::server {

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Looks at the header alone, before a byte of the body is taken: the answer to what is refused whatever the body is.
  virtual std::optional<HttpReply> gate(const HttpExchange& exchange) = 0;
  /// Sends an answer, now or later. What it throws is the answer, too.
  virtual void handle(const std::shared_ptr<HttpExchange>& exchange) = 0;
};

}  // namespace camshaft::server
