#include "server/http/api.h"

#include "server/http/http_status.h"
#include "server/http/model_routes.h"
#include "server/http/openai_reply.h"
#include "server/http/server_routes.h"
#include "server/http/status_page.h"

namespace camshaft::server {

namespace {

HttpReply wrong_method(const std::string& allowed) {
  HttpReply reply = error_reply(405, "Method Not Allowed");
  reply.headers.emplace_back("Allow", allowed);
  return reply;
}

HttpReply answer_route(Server& server, const HttpExchange& exchange, const Route& route, std::string_view body) {
  const bool post = exchange.method() == HttpMethod::post;
  switch (route.kind) {
    case RouteKind::live:
      return server_live(server);
    case RouteKind::ready:
      return server_ready(server);
    case RouteKind::model_ready:
      return model_ready(server, route);
    case RouteKind::server_metadata:
      return server_metadata(server);
    case RouteKind::model_metadata:
      return model_metadata(server, route);
    case RouteKind::model_config:
      return model_configuration(server, route);
    case RouteKind::model_statistics:
      return model_statistics(server, route);
    case RouteKind::repository_index:
      return repository_index(server, route, body);
    case RouteKind::repository_load:
      return load_model(server, route, body);
    case RouteKind::repository_unload:
      return unload_model(server, route, body);
    case RouteKind::system_shared_memory:
      return system_shared_memory(server, route, body);
    case RouteKind::cuda_shared_memory:
      return cuda_shared_memory(server, route, body);
    case RouteKind::trace_setting:
      return trace_setting(server, route, post, body);
    case RouteKind::logging:
      return log_settings(server, post, body);
    case RouteKind::status_page:
      return status_page();
    case RouteKind::status_data:
      return status_data(server);
    case RouteKind::openai_models:
      return openai_models(server);
    case RouteKind::openai_model:
      return openai_model(server, route.model);
    case RouteKind::infer:
    case RouteKind::generate:
    case RouteKind::generate_stream:
    case RouteKind::openai_call:
      break;
  }
  return error_reply(404, "Not Found");
}

std::optional<std::regex> header_pattern(const std::string& pattern) {
  if (pattern.empty()) return std::nullopt;
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw ServerError(StatusCode::invalid_argument,
                      "--http-header-forward-pattern '" + pattern + "' is no regular expression: " + error.what());
  }
}

}  // namespace

HttpApi::HttpApi(Server& server, HttpService& service)
    : server_(server),
      service_(service),
      infer_{server, service.options, service.bodies, header_pattern(service.options.forward_headers)},
      tokens_(service.options.token_file.empty() ? BearerTokens() : BearerTokens(service.options.token_file)) {}

std::optional<HttpReply> HttpApi::gate(const HttpExchange& exchange) {
  std::optional<HttpReply> refusal;
  try {
    refusal = refusal_of(exchange);
  } catch (...) {  // a path that has no meaning
    refusal = error_reply(current_exception_status());
  }
  if (refusal && is_openai_path(exchange.target())) refusal = as_openai_error(std::move(*refusal));
  return refusal;
}

std::optional<HttpReply> HttpApi::refusal_of(const HttpExchange& exchange) {
  const std::optional<Route> route = parse_route(exchange.target());
  const bool page = route && (route->kind == RouteKind::status_page || route->kind == RouteKind::status_data);
  if (!route || (page && !service_.options.status_page)) return error_reply(404, "Not Found");
  // The page itself shows nothing: it asks for the key to its data.
  const bool is_open = route->kind == RouteKind::status_page || route->api == Api::health;
  if (const auto* key = route->kind == RouteKind::status_page ? nullptr : service_.options.restricted.key(route->api))
    if (!same_secret(exchange.header(key->first), key->second))
      return error_reply(403, "This API is restricted, expecting header '" + key->first + "'");
  if (tokens_.required() && !is_open && !tokens_.accepts(exchange.header("Authorization"))) {
    HttpReply reply =
        error_reply(401, "this server answers requests with 'Authorization: Bearer' and one of its tokens");
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  const HttpMethod method = exchange.method();
  const bool reads = method == HttpMethod::get || method == HttpMethod::head;
  if ((reads && route->get) || (method == HttpMethod::post && route->post)) return std::nullopt;
  return wrong_method(!route->get ? "POST" : route->post ? "GET, HEAD, POST" : "GET, HEAD");
}

void HttpApi::handle(const std::shared_ptr<HttpExchange>& exchange) {
  const Route route = *parse_route(exchange->target());
  switch (route.kind) {
    case RouteKind::infer:
      return call_infer(infer_, exchange, route);
    case RouteKind::generate:
      return call_generate(infer_, exchange, route, false);
    case RouteKind::generate_stream:
      return call_generate(infer_, exchange, route, true);
    case RouteKind::openai_call:
      return call_openai(infer_, exchange, route);
    case RouteKind::live:
    case RouteKind::ready:
      return exchange->send(answer_route(server_, *exchange, route, {}));
    default:
      break;
  }
  // The rest may wait for locks and files, and loads for minutes: inferences do not wait for it.
  auto work = [this, exchange, route] {
    HttpReply reply;
    try {
      const Bytes body = plain_body(infer_, *exchange);
      reply = answer_route(server_, *exchange, route, text_of(body));
    } catch (...) {
      const Status status = current_exception_status();
      reply = is_openai_path(exchange->target()) ? openai_error(status) : error_reply(status);
    }
    exchange->post([exchange, reply = std::move(reply)]() mutable { exchange->send(std::move(reply)); });
  };
  const bool waits = route.kind == RouteKind::repository_load || route.kind == RouteKind::repository_unload ||
                     route.kind == RouteKind::openai_models || route.kind == RouteKind::openai_model;
  waits ? exchange->run_apart(std::move(work)) : exchange->run_elsewhere(std::move(work));
}

std::optional<HttpReply> MetricsApi::gate(const HttpExchange& exchange) {
  const std::string_view path = exchange.target().substr(0, exchange.target().find('?'));
  if (path != "/metrics" && path != "/metrics/") return error_reply(404, "Not Found");
  if (exchange.method() == HttpMethod::get || exchange.method() == HttpMethod::head) return std::nullopt;
  return wrong_method("GET, HEAD");
}

void MetricsApi::handle(const std::shared_ptr<HttpExchange>& exchange) {
  HttpReply reply;
  reply.content_type = "text/plain; charset=utf-8";
  reply.text = metrics_.text();
  exchange->send(std::move(reply));
}

}  // namespace camshaft::server
