#include "server/http/infer_call.h"

#include "server/http/compression.h"
#include "server/http/http_status.h"
#include "server/http/infer_response.h"

namespace camshaft::server {

namespace {

constexpr uint64_t long_text = 256 << 10;    // bytes of JSON, or of a compressed body: read on another thread
constexpr size_t long_output = 64 << 10;     // bytes of tensors that become JSON: written on another thread
constexpr size_t longest_header_name = 256;  // that is held against a regular expression

struct InferCall {
  ResponseForm form;
  Encoding accepted = Encoding::identity;
  Cancellation cancellation;
  bool sent = false;
};

HttpReply infer_reply(const Response& response, const InferCall& call) {
  try {
    if (!response.status.ok()) {
      if (http_status(response.status.code) == 500)
        note_error("model '" + response.model + "': " + response.status.message);
      return error_reply(response.status);
    }
    HttpReply reply = encode_response(response, call.form);
    compress(reply, call.accepted);
    return reply;
  } catch (...) {
    return error_reply(current_exception_status());
  }
}

bool takes_long(const Response& response, const InferCall& call) {
  size_t text = 0, all = 0;
  for (const NamedTensor& tensor : response.outputs) {
    all += tensor.data.span.size();
    const bool binary =
        call.form.all_binary || call.form.binary.contains(tensor.name) || call.form.shared.contains(tensor.name);
    if (!binary) text += tensor.data.span.size();
  }
  return text > long_output || (call.accepted != Encoding::identity && all > long_output);
}

void answer_infer(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<InferCall>& call,
                  Response response) {
  if (std::exchange(call->sent, true)) return;  // of a model that answers more than once the first counts
  if (!takes_long(response, *call)) return exchange->send(infer_reply(response, *call));
  exchange->run_elsewhere([exchange, call, response = std::move(response)] {
    exchange->post([exchange, reply = infer_reply(response, *call)]() mutable { exchange->send(std::move(reply)); });
  });
}

bool is_decoupled(Server& server, const Route& route) {
  return server.models().find(route.model, route.version)->config().model_transaction_policy().decoupled();
}

void start_infer(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route,
                 const std::shared_ptr<InferCall>& call) {
  if (is_decoupled(context.server, route))
    throw ServerError(StatusCode::unsupported,
                      "HTTP end point doesn't support models with decoupled transaction policy: use "
                      "generate_stream, or gRPC, for '" +
                          route.model + "'");
  Request request = request_of(*exchange, route);
  request.cancellation = call->cancellation;
  const Bytes body = plain_body(context, *exchange);
  const std::optional<uint64_t> length = document_length(exchange->header("Inference-Header-Content-Length"));
  if (length && *length == 0) {
    decode_raw_request(body, context.server.models().find(route.model, route.version)->config(), request, call->form);
  } else {
    decode_request(body, length, context.server.shared_memory(), context.options.max_input_size, request, call->form);
  }
  forward_headers(context, *exchange, request);
  context.server.infer(std::move(request), [exchange, call](Response response) {
    exchange->post([exchange, call, response = std::move(response)]() mutable {
      answer_infer(exchange, call, std::move(response));
    });
  });
}

}  // namespace

void start_elsewhere(const std::shared_ptr<HttpExchange>& exchange, std::function<void()> start,
                     HttpReply (*failed)(const Status&)) {
  exchange->run_elsewhere([exchange, start = std::move(start), failed] {
    try {
      start();
    } catch (...) {
      exchange->post(
          [exchange, reply = failed(current_exception_status())]() mutable { exchange->send(std::move(reply)); });
    }
  });
}

Bytes plain_body(InferContext& context, const HttpExchange& exchange) {
  const Encoding encoding = content_encoding(exchange.header("Content-Encoding"));
  if (encoding == Encoding::identity) return exchange.body();
  return decompressed(exchange.body().span, encoding, context.options.max_input_size, context.bodies).bytes();
}

std::string_view text_of(const Bytes& body) {
  return {reinterpret_cast<const char*>(body.span.data()), body.span.size()};
}

void forward_headers(const InferContext& context, const HttpExchange& exchange, Request& request) {
  if (!context.forward_headers) return;
  static constexpr std::string_view reserved[] = {"sequence_id",    "priority",     "timeout",
                                                  "sequence_start", "sequence_end", "headers"};
  exchange.each_header([&](std::string_view name, std::string_view value) {
    if (name.size() > longest_header_name || !std::regex_search(name.begin(), name.end(), *context.forward_headers))
      return;
    const bool is_reserved = std::find(std::begin(reserved), std::end(reserved), name) != std::end(reserved);
    if (is_reserved || name.starts_with("triton_"))
      throw ServerError(StatusCode::invalid_argument,
                        "Header '" + std::string(name) + "' is reserved for Triton usage and cannot be forwarded.");
    request.parameters[std::string(name)] = std::string(value);
  });
}

Request request_of(const HttpExchange& exchange, const Route& route) {
  Request request;
  request.model = route.model;
  request.version = route.version;
  request.timeline.received = exchange.received();
  return request;
}

void call_infer(InferContext& context, const std::shared_ptr<HttpExchange>& exchange, const Route& route) {
  auto call = std::make_shared<InferCall>();
  call->accepted = accepted_encoding(exchange->header("Accept-Encoding"));
  exchange->watch(call->cancellation);
  const bool is_text = exchange->header("Inference-Header-Content-Length").empty();
  const bool compressed = !exchange->header("Content-Encoding").empty();
  if ((!is_text && !compressed) || exchange->body().span.size() < long_text)
    return start_infer(context, exchange, route, call);
  start_elsewhere(exchange, [&context, exchange, route, call] { start_infer(context, exchange, route, call); });
}

}  // namespace camshaft::server
