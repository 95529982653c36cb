#include "server/http/http_status.h"

#include <nlohmann/json.hpp>

namespace camshaft::server {

int http_status(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return 200;
    case StatusCode::not_found:
      return 404;
    case StatusCode::internal:
      return 500;
    case StatusCode::unsupported:
      return 501;
    case StatusCode::unavailable:
    case StatusCode::resource_exhausted:
      return 503;
    case StatusCode::permission_denied:
      return 403;
    case StatusCode::unknown:
    case StatusCode::invalid_argument:
    case StatusCode::already_exists:
    case StatusCode::cancelled:
      break;
  }
  return 400;
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

HttpReply error_reply(int status, const std::string& message) {
  HttpReply reply;
  reply.status = status;
  reply.text = "{\"error\":" + json_text(message) + "}";
  if (status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply error_reply(const Status& status) {
  return error_reply(http_status(status.code), status.message);
}

}  // namespace camshaft::server
