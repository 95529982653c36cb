// Inferences over HTTP: infer, generate, generate_stream, and what OpenAI's interface has.
#pragma once

#include <functional>
#include <memory>
#include <regex>
#include <string_view>

#include "server/http/body_pool.h"
#include "server/http/exchange.h"
#include "server/http/http_server.h"
#include "server/http/http_status.h"
#include "server/http/route.h"

namespace camshaft::server {

/// What calls for an inference need of the server.
struct InferContext {
  Server& server;
  const HttpOptions& options;
  BodyPool& bodies;
  std::optional<std::regex> forward_headers;
};

/// Answers later, on the exchange's thread. Throws what is wrong with the request.
void call_infer(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route);
/// `stream`: each response is an event of its own.
void call_generate(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route,
                   bool stream);
/// The body as it is goes to the language model that it names, whose responses are the reply or the events of a stream.
void call_openai(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route);

/// Starts a call on another thread, beside the exchange's; what is thrown there is answered by `failed`.
void start_elsewhere(const std::shared_ptr<HttpExchange>& exchange, std::function<void()> start,
                     HttpReply (*failed)(const Status&) = error_reply);
/// The body as it is after Content-Encoding.
Bytes plain_body(InferContext& context, const HttpExchange& exchange);
/// Its characters.
std::string_view text_of(const Bytes& body);
/// Puts headers that are to be forwarded into the parameters of a request.
void forward_headers(const InferContext& context, const HttpExchange& exchange, Request& request);
/// A request's parts that come of the path and the connection.
Request request_of(const HttpExchange& exchange, const Route& route);

}  // namespace camshaft::server
