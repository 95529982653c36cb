#include "server/http/compression.h"

#define ZLIB_CONST  // its input is const
#include <zlib.h>

#include <charconv>
#include <cstring>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if ((a[i] | 0x20) != (b[i] | 0x20)) return false;
  return true;
}

// 15: the largest window; + 16: gzip; + 32: gzip or zlib, by what it starts with.
constexpr int window_bits(Encoding encoding) {
  return encoding == Encoding::gzip ? 15 + 16 : 15;
}

class Inflater {
 public:
  explicit Inflater(Encoding encoding) {
    if (inflateInit2(&stream, window_bits(encoding)) != Z_OK)
      throw ServerError(StatusCode::resource_exhausted, "there is no memory to decompress a body");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream stream{};
};

class Deflater {
 public:
  explicit Deflater(Encoding encoding) {
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, window_bits(encoding), 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw ServerError(StatusCode::resource_exhausted, "there is no memory to compress a response");
  }
  ~Deflater() { deflateEnd(&stream); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void add(const void* data, size_t size, bool last, std::string& out) {
    stream.next_in = static_cast<const Bytef*>(data);
    do {
      const size_t step = std::min<size_t>(size, 1u << 30);
      stream.avail_in = static_cast<uInt>(step);
      size -= step;
      do {
        char piece[1 << 14];
        stream.next_out = reinterpret_cast<Bytef*>(piece);
        stream.avail_out = sizeof piece;
        deflate(&stream, last && size == 0 ? Z_FINISH : Z_NO_FLUSH);
        out.append(piece, sizeof piece - stream.avail_out);
      } while (stream.avail_out == 0);
    } while (size > 0);
  }
  z_stream stream{};
};

}  // namespace

Encoding content_encoding(std::string_view header) {
  header = trimmed(header);
  if (header.empty() || same_word(header, "identity")) return Encoding::identity;
  if (same_word(header, "gzip") || same_word(header, "x-gzip")) return Encoding::gzip;
  if (same_word(header, "deflate")) return Encoding::deflate;
  throw ServerError(StatusCode::invalid_argument, "Unsupported content-encoding '" +
                                                      std::string(header.substr(0, 100)) +
                                                      "': only 'identity', 'gzip' and 'deflate' are supported");
}

Encoding accepted_encoding(std::string_view header) {
  Encoding best = Encoding::identity;
  double best_weight = 0;
  while (!header.empty()) {
    const size_t comma = std::min(header.find(','), header.size());
    std::string_view word = trimmed(header.substr(0, comma));
    header.remove_prefix(std::min(comma + 1, header.size()));
    double weight = 1;
    if (const size_t semicolon = word.find(';'); semicolon != word.npos) {
      std::string_view rest = trimmed(word.substr(semicolon + 1));
      word = trimmed(word.substr(0, semicolon));
      if (rest.size() > 2 && (rest[0] | 0x20) == 'q' && rest[1] == '=') {
        rest.remove_prefix(2);
        if (std::from_chars(rest.data(), rest.data() + rest.size(), weight).ec != std::errc()) weight = 0;
      }
    }
    Encoding encoding = Encoding::identity;
    if (same_word(word, "gzip") || same_word(word, "x-gzip"))
      encoding = Encoding::gzip;
    else if (same_word(word, "deflate"))
      encoding = Encoding::deflate;
    else if (!same_word(word, "identity"))
      continue;
    if (weight > best_weight) best = encoding, best_weight = weight;
  }
  return best;
}

Body decompressed(std::span<const std::byte> data, Encoding encoding, uint64_t limit, BodyPool& pool) {
  Inflater inflater(encoding);
  z_stream& stream = inflater.stream;
  stream.next_in = reinterpret_cast<const Bytef*>(data.data());
  uint64_t left = data.size(), made = 0;
  Body out = pool.take(std::min<uint64_t>(limit, std::max<uint64_t>(4 * data.size(), 1 << 12)));
  Bytef probe = 0;  // outlives the branch that hands it over: it is written by inflate()
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (made == out.span.size()) {
      if (made >= limit) {
        // A stream of just so many bytes has its end yet to come.
        stream.next_out = &probe;
        stream.avail_out = 1;
      } else {
        Body larger = pool.take(std::min<uint64_t>(limit, 2 * out.span.size()));
        std::memcpy(larger.span.data(), out.span.data(), made);
        out = std::move(larger);
      }
    }
    const uint64_t room = out.span.size() - made;
    if (room > 0) {
      stream.next_out = reinterpret_cast<Bytef*>(out.span.data() + made);
      stream.avail_out = static_cast<uInt>(std::min<uint64_t>(room, 1u << 30));
    }
    const uInt given_out = stream.avail_out;
    const uInt given_in = static_cast<uInt>(std::min<uint64_t>(left, 1u << 30));
    stream.avail_in = given_in;
    status = inflate(&stream, Z_NO_FLUSH);
    left -= given_in - stream.avail_in;
    const uInt written = given_out - stream.avail_out;
    if (room == 0 && written > 0)
      throw ServerError(StatusCode::invalid_argument,
                        "the body is larger than " + std::to_string(limit) +
                            " bytes after decompression, which exceeds the maximum allowed value. Use "
                            "--http-max-input-size to increase the limit.");
    made += written;
    const bool stuck = status == Z_BUF_ERROR || (status == Z_OK && written == 0 && given_in == stream.avail_in);
    if (status != Z_STREAM_END && (stuck || status != Z_OK))
      throw ServerError(StatusCode::invalid_argument,
                        left == 0 ? "the compressed body is cut off" : "the body is not what Content-Encoding says");
  }
  if (left > 0) throw ServerError(StatusCode::invalid_argument, "there are bytes behind the compressed body");
  out.span = out.span.first(made);
  return out;
}

void compress(HttpReply& reply, Encoding encoding) {
  if (encoding == Encoding::identity) return;
  Deflater deflater(encoding);
  std::string out;
  deflater.add(reply.text.data(), reply.text.size(), reply.tensors.empty(), out);
  for (size_t i = 0; i < reply.tensors.size(); ++i)
    deflater.add(reply.tensors[i].span.data(), reply.tensors[i].span.size(), i + 1 == reply.tensors.size(), out);
  reply.text = std::move(out);
  reply.tensors.clear();
  reply.headers.emplace_back("Content-Encoding", encoding == Encoding::gzip ? "gzip" : "deflate");
}

}  // namespace camshaft::server
