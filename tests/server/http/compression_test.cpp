#include "server/http/compression.h"

#include <gtest/gtest.h>

#include <cstring>

#include "server/core/status.h"
#include "server/seed.h"

namespace camshaft::server::compression_test {
namespace {

std::string compressed(const std::string& text, Encoding encoding) {
  HttpReply reply;
  reply.text = text;
  compress(reply, encoding);
  return reply.text;
}

std::string text_of(const Body& body) {
  return {reinterpret_cast<const char*>(body.span.data()), body.span.size()};
}

Body decompress(const std::string& data, Encoding encoding, uint64_t limit, BodyPool& pool) {
  return decompressed(std::as_bytes(std::span(data)), encoding, limit, pool);
}

TEST(Compression, GivesBackWhatWentIn) {
  const auto memory = std::make_shared<RequestMemory>(1 << 30);
  BodyPool pool(memory);
  for (const Encoding encoding : {Encoding::gzip, Encoding::deflate})
    for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{1 << 20}}) {
      std::string text(size, 'x');
      for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * i >> 3);
      EXPECT_EQ(text_of(decompress(compressed(text, encoding), encoding, size, pool)), text) << size;
    }
  EXPECT_EQ(memory->in_use(), 0u);
}

TEST(Compression, ReplyWithTensorsIsOneStream) {
  const auto memory = std::make_shared<RequestMemory>(1 << 30);
  BodyPool pool(memory);
  const std::string first(1000, 'a'), second(70000, 'b');
  HttpReply reply;
  reply.text = "text";
  reply.tensors = {{std::as_bytes(std::span(first)), nullptr}, {std::as_bytes(std::span(second)), nullptr}};
  compress(reply, Encoding::gzip);
  EXPECT_TRUE(reply.tensors.empty());
  EXPECT_EQ(text_of(decompress(reply.text, Encoding::gzip, 1 << 20, pool)), "text" + first + second);
}

TEST(Compression, BombIsRefusedWithoutItsMemory) {
  const std::string bomb = compressed(std::string(256 << 20, '\0'), Encoding::gzip);
  ASSERT_LT(bomb.size(), 2u << 20);
  const auto memory = std::make_shared<RequestMemory>(64 << 20);
  BodyPool pool(memory);  // were more taken, this would say so
  try {
    decompress(bomb, Encoding::gzip, 16 << 20, pool);
    FAIL();
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), StatusCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("--http-max-input-size"), std::string::npos) << error.what();
  }
  EXPECT_EQ(memory->in_use(), 0u);
}

TEST(Compression, LimitIsExact) {
  const auto memory = std::make_shared<RequestMemory>(1 << 30);
  BodyPool pool(memory);
  const std::string data = compressed(std::string(100000, 'x'), Encoding::gzip);
  EXPECT_EQ(decompress(data, Encoding::gzip, 100000, pool).span.size(), 100000u);
  EXPECT_THROW(decompress(data, Encoding::gzip, 99999, pool), ServerError);
}

TEST(Compression, DamagedStreams) {
  const auto memory = std::make_shared<RequestMemory>(1 << 30);
  BodyPool pool(memory);
  const std::string whole = compressed(std::string(5000, 'x') + "end", Encoding::gzip);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(decompress(whole.substr(0, size), Encoding::gzip, 1 << 20, pool), ServerError) << size;
  EXPECT_THROW(decompress(whole + "more", Encoding::gzip, 1 << 20, pool), ServerError);
  EXPECT_THROW(decompress(whole, Encoding::deflate, 1 << 20, pool), ServerError);
  std::mt19937_64 random = seeded_random();
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    try {
      decompress(damaged, Encoding::gzip, 1 << 20, pool);
    } catch (const ServerError&) {
    }
  }
  EXPECT_EQ(memory->in_use(), 0u);
}

TEST(Compression, Headers) {
  EXPECT_EQ(content_encoding(""), Encoding::identity);
  EXPECT_EQ(content_encoding("GZIP"), Encoding::gzip);
  EXPECT_EQ(content_encoding(" deflate "), Encoding::deflate);
  EXPECT_THROW(content_encoding("br"), ServerError);
  EXPECT_THROW(content_encoding("gzip, gzip"), ServerError);
  EXPECT_EQ(accepted_encoding(""), Encoding::identity);
  EXPECT_EQ(accepted_encoding("gzip"), Encoding::gzip);
  EXPECT_EQ(accepted_encoding("gzip;q=0.5, deflate;q=0.8"), Encoding::deflate);
  EXPECT_EQ(accepted_encoding("gzip;q=0"), Encoding::identity);
  EXPECT_EQ(accepted_encoding("br, zstd"), Encoding::identity);
  EXPECT_EQ(accepted_encoding("identity;q=1, gzip;q=0.5"), Encoding::identity);
  EXPECT_EQ(accepted_encoding("gzip;q=x,,;;,"), Encoding::identity);
}

}  // namespace
}  // namespace camshaft::server::compression_test
