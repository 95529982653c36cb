// Errors as clients of HTTP read them.
#pragma once

#include "server/core/status.h"
#include "server/http/exchange.h"

namespace camshaft::server {

/// As Triton has them: 400 for what is wrong with a request, 404, 500, 501, 503.
int http_status(StatusCode code);
/// {"error": message}; where the server has no room (503), with Retry-After.
HttpReply error_reply(const Status& status);
HttpReply error_reply(int status, const std::string& message);
/// A text as a JSON string, with its quotes. Bytes that are not UTF-8 are replaced.
std::string json_text(const std::string& text);

}  // namespace camshaft::server
