#include "server/core/text_tensor.h"

#include <cstring>
#include <limits>
#include <string>

#include "server/core/status.h"

namespace camshaft::server {

int64_t read_texts(std::span<const std::byte> bytes, Tensor& texts, int64_t first) {
  for (size_t at = 0; at < bytes.size(); ++first) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    at += sizeof(length);
    texts.set_text(first, {reinterpret_cast<const char*>(bytes.data() + at), length});
    at += length;
  }
  return first;
}

namespace {

void append(std::string& to, std::string_view text) {
  if (text.size() > std::numeric_limits<uint32_t>::max())
    throw ServerError(StatusCode::unsupported, "a string is larger than 4 GiB");
  const auto length = static_cast<uint32_t>(text.size());
  to.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(text);
}

Bytes kept(std::shared_ptr<std::string> written) {
  return {std::as_bytes(std::span(*written)), written};
}

}  // namespace

Bytes write_text(std::string_view text) {
  auto written = std::make_shared<std::string>();
  written->reserve(sizeof(uint32_t) + text.size());
  append(*written, text);
  return kept(std::move(written));
}

Bytes write_texts(const Tensor& texts, int64_t first, int64_t count) {
  auto written = std::make_shared<std::string>();
  for (int64_t i = first; i < first + count; ++i) append(*written, texts.text(i));
  return kept(std::move(written));
}

}  // namespace camshaft::server
