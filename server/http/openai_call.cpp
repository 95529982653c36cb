#include "server/core/text_tensor.h"
#include "server/http/compression.h"
#include "server/http/http_status.h"
#include "server/http/infer_call.h"
#include "server/http/openai_reply.h"
#include "server/http/openai_request.h"

namespace camshaft::server {

namespace {

struct OpenAiCall {
  bool begun = false, sent = false;
  Cancellation cancellation;
};

std::string text_of(const Response& response) {
  if (response.outputs.empty() || response.outputs.front().data.span.size() < sizeof(uint32_t)) return {};
  const std::span<const std::byte> text = response.outputs.front().data.span.subspan(sizeof(uint32_t));
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

template <class T>
T parameter_or(const Response& response, const char* name, T otherwise) {
  const auto found = response.parameters.find(name);
  if (found == response.parameters.end()) return otherwise;
  const T* value = std::get_if<T>(&found->second);
  return value == nullptr ? otherwise : *value;
}

bool is_of_sound(const Route& route) {
  return route.action.starts_with("audio/");
}

// `name`: of the event's kind, where it has one.
void send_event(HttpExchange& exchange, OpenAiCall& call, const std::string& text, const std::string& name = {}) {
  if (!std::exchange(call.begun, true)) {
    HttpReply head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers.emplace_back("Cache-Control", "no-cache");
    exchange.begin_stream(std::move(head));
  }
  exchange.send_piece((name.empty() ? "" : "event: " + name + "\n") + "data: " + text + "\n\n");
}

void send_once(HttpExchange& exchange, OpenAiCall& call, HttpReply reply) {
  if (!std::exchange(call.sent, true)) exchange.send(std::move(reply));
}

// A response is an event of a stream, or the whole reply with its status: parameters say which.
void answer_openai(HttpExchange& exchange, OpenAiCall& call, const Response& response) {
  if (!response.status.ok()) {
    if (http_status(response.status.code) == 500)
      note_error("model '" + response.model + "': " + response.status.message);
    HttpReply reply = openai_error(response.status);
    call.begun ? send_event(exchange, call, reply.text) : send_once(exchange, call, std::move(reply));
  } else if (!response.empty && parameter_or(response, "event", false)) {
    send_event(exchange, call, text_of(response), parameter_or<std::string>(response, "event_name", {}));
  } else if (!response.empty) {
    HttpReply reply;
    reply.status = static_cast<int>(parameter_or<int64_t>(response, "status", 200));
    reply.content_type = parameter_or<std::string>(response, "content_type", "application/json");
    reply.text = text_of(response);
    if (reply.status == 503) reply.headers.emplace_back("Retry-After", "1");
    send_once(exchange, call, std::move(reply));
  }
  if (!response.final) return;
  if (call.begun) return exchange.end_stream();
  send_once(exchange, call, openai_error(500, "the model '" + response.model + "' gave no answer"));
}

void ask(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route,
         const std::shared_ptr<OpenAiCall>& call, const Model& model, std::string_view text) {
  Request request = request_of(*exchange, route);
  request.model = model.name();
  request.cancellation = call->cancellation;
  request.inputs.push_back({"request", DType::string, {1}, write_text(text)});
  forward_headers(context, *exchange, request);
  request.parameters["operation"] = route.action;
  if (is_of_sound(route)) request.parameters["content_type"] = std::string(exchange->header("Content-Type"));
  context.server.infer(std::move(request), [exchange, call](Response response) {
    exchange->post([exchange, call, response = std::move(response)] { answer_openai(*exchange, *call, response); });
  });
}

void start_openai(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route,
                  const std::shared_ptr<OpenAiCall>& call) {
  const Bytes body = plain_body(context, *exchange);
  const std::string_view text = text_of(body);
  const bool has_sound = is_of_sound(route);
  if (has_sound && text.size() > longest_openai_form) {
    const std::string message = "the body has " + std::to_string(text.size()) + " bytes; " +
                                std::to_string(longest_openai_form) + " are the most of one with a sound";
    return exchange->post(
        [exchange, call, message] { send_once(*exchange, *call, openai_error(400, message, "file")); });
  }
  const std::string content_type(exchange->header("Content-Type"));
  const std::optional<std::string> name = has_sound ? model_of_form(text, content_type) : model_of_openai(text);
  if (const std::shared_ptr<Model> model = loaded_language_model(context.server, name))
    return ask(context, exchange, route, call, *model, text);
  // Models are asked for their adapters, which may take as long as a step of theirs: other calls do not wait for that.
  exchange->post([&context, exchange, route, call, body, name] {
    exchange->run_apart([&context, exchange, route, call, body, name] {
      try {
        ask(context, exchange, route, call, *find_language_model(context.server, name), text_of(body));
      } catch (...) {
        exchange->post([exchange, reply = openai_error(current_exception_status())]() mutable {
          exchange->send(std::move(reply));
        });
      }
    });
  });
}

}  // namespace

void call_openai(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route) {
  auto call = std::make_shared<OpenAiCall>();
  exchange->watch(call->cancellation);
  start_elsewhere(
      exchange, [&context, exchange, route, call] { start_openai(context, exchange, route, call); }, openai_error);
}

}  // namespace camshaft::server
