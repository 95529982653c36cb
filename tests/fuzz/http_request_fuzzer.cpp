// libFuzzer target: any bytes as what comes over HTTP: paths, JSON with tensors behind it, compressed bodies. The first
// byte says which of them, the next two how long the JSON is.
#include <cstring>
#include <string>

#include "server/http/compression.h"
#include "server/http/generate_request.h"
#include "server/http/infer_request.h"
#include "server/http/infer_response.h"
#include "server/http/json_document.h"
#include "server/http/route.h"

namespace camshaft::server {
namespace {

constexpr uint64_t limit = 1 << 16;

// Memory of its own for each body, so that a byte too far is seen.
Bytes body_of(std::string_view text) {
  auto owner = std::make_shared<std::vector<std::byte>>(text.size());
  if (!text.empty()) std::memcpy(owner->data(), text.data(), text.size());
  return {*owner, owner};
}

ModelConfig config_of(int kind) {
  ModelConfig config;
  config.set_name("m");
  config.set_max_batch_size(kind & 1 ? 4 : 0);
  auto* text = config.add_input();
  text->set_name("x");
  text->set_data_type(kind & 2 ? inference::TYPE_STRING : inference::TYPE_FP32);
  text->add_dims(kind & 4 ? -1 : 2);
  if ((kind & 8) != 0) {
    auto* number = config.add_input();
    number->set_name("n");
    number->set_data_type(inference::TYPE_INT8);
    number->add_dims(-1);
    number->add_dims(3);
  }
  return config;
}

// What was read is written again, as a model that hands through what it gets would.
void echo(Request request, ResponseForm form) {
  Response response;
  response.model = request.model;
  response.id = request.id;
  response.parameters = std::move(request.parameters);
  response.outputs = std::move(request.inputs);
  size_t touched = 0;
  for (const NamedTensor& tensor : response.outputs)
    for (const std::byte byte : tensor.data.span) touched += static_cast<size_t>(byte);
  const HttpReply reply = encode_response(response, form);
  if (reply.text.size() + touched == 1) std::abort();  // so that it is used
}

void infer(std::string_view text, std::optional<uint64_t> length) {
  const SharedMemory memory(true);
  Request request;
  ResponseForm form;
  decode_request(body_of(text), length, memory, limit, request, form);
  echo(std::move(request), std::move(form));
}

void try_bytes(int kind, uint16_t length, std::string_view text) {
  static BodyPool pool(std::make_shared<RequestMemory>(64 * limit));
  Request request;
  ResponseForm form;
  switch (kind & 7) {
    case 0:
      return infer(text, length);
    case 1:
      return infer(text, std::nullopt);
    case 2:
      return decode_generate(body_of(text).span.empty() ? "" : text, config_of(kind >> 3), limit, request);
    case 3:
      return decode_raw_request(body_of(text), config_of(kind >> 3), request, form);
    case 4:
    case 5: {
      const Encoding encoding = (kind & 1) != 0 ? Encoding::gzip : Encoding::deflate;
      const Body plain = decompressed(body_of(text).span, encoding, limit, pool);
      return infer({reinterpret_cast<const char*>(plain.span.data()), plain.span.size()}, length);
    }
    case 6: {
      parse_route(text);
      accepted_encoding(text);
      content_encoding(text);
      document_length(text);
      return;
    }
    default:
      parse_document(text);
  }
}

}  // namespace
}  // namespace camshaft::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  uint16_t length = 0;
  std::memcpy(&length, data + 1, sizeof length);
  try {
    camshaft::server::try_bytes(data[0], length, {reinterpret_cast<const char*>(data) + 3, size - 3});
  } catch (const camshaft::server::ServerError&) {
  }
  return 0;
}
