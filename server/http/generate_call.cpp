#include "server/http/compression.h"
#include "server/http/generate_request.h"
#include "server/http/http_status.h"
#include "server/http/infer_call.h"
#include "server/http/infer_response.h"

namespace camshaft::server {

namespace {

struct GenerateCall {
  bool stream = false, begun = false;
  int responses = 0;
  std::optional<HttpReply> reply;  // of a call without a stream
  Cancellation cancellation;
};

std::string event_of(const std::string& json) {
  return "data: " + json + "\n\n";
}

// The text of one response, and the status that a stream which begins with it has.
std::pair<std::string, int> generated_text(const Response& response) {
  try {
    if (response.status.ok()) return {encode_generated(response), 200};
    if (http_status(response.status.code) == 500)
      note_error("model '" + response.model + "': " + response.status.message);
    return {error_reply(response.status).text, http_status(response.status.code)};
  } catch (...) {
    const HttpReply reply = error_reply(current_exception_status());
    return {reply.text, reply.status};
  }
}

void stream_response(HttpExchange& exchange, GenerateCall& call, const Response& response) {
  const auto [text, status] = response.empty ? std::pair<std::string, int>("", 200) : generated_text(response);
  if (!std::exchange(call.begun, true)) {
    HttpReply head;
    head.status = status;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers.emplace_back("Cache-Control", "no-cache");
    exchange.begin_stream(std::move(head));
  }
  if (!response.empty) exchange.send_piece(event_of(text));
  if (response.final) exchange.end_stream();
}

void collect_response(HttpExchange& exchange, GenerateCall& call, const Response& response) {
  if (!response.empty) {
    ++call.responses;
    auto [text, status] = generated_text(response);
    call.reply.emplace().text = std::move(text);
    call.reply->status = status;
  }
  if (!response.final) return;
  if (call.responses != 1 || !call.reply)
    call.reply = error_reply(500,
                             "generate expects model to produce exactly 1 response, use generate stream for model that "
                             "generates various number of responses");
  exchange.send(std::move(*call.reply));
}

void start_generate(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route,
                    const std::shared_ptr<GenerateCall>& call) {
  Request request = request_of(*exchange, route);
  request.cancellation = call->cancellation;
  const std::shared_ptr<Model> model = context.server.models().find(route.model, route.version);
  const Bytes body = plain_body(context, *exchange);
  decode_generate({reinterpret_cast<const char*>(body.span.data()), body.span.size()}, model->config(),
                  context.options.max_input_size, request);
  forward_headers(context, *exchange, request);
  context.server.infer(std::move(request), [exchange, call](Response response) {
    exchange->post([exchange, call, response = std::move(response)] {
      call->stream ? stream_response(*exchange, *call, response) : collect_response(*exchange, *call, response);
    });
  });
}

}  // namespace

void call_generate(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route,
                   bool stream) {
  auto call = std::make_shared<GenerateCall>();
  call->stream = stream;
  exchange->watch(call->cancellation);
  start_elsewhere(exchange, [&context, exchange, route, call] { start_generate(context, exchange, route, call); });
}

}  // namespace camshaft::server
