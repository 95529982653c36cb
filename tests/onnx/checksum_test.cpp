#include "onnx/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace camshaft::onnx::checksum_test {
namespace {

// Bit by bit, as the format's description has it.
uint32_t plain(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t remainder = ~before;
  for (const std::byte b : bytes) {
    remainder ^= std::to_integer<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? 0xEDB88320U : 0);
  }
  return ~remainder;
}

TEST(Checksum, OfTheFormatsOwnExample) {
  constexpr std::string_view digits = "123456789";
  EXPECT_EQ(crc32_of(std::as_bytes(std::span(digits))), 0xCBF43926U);
}

TEST(Checksum, OfEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(1100);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  for (size_t begin = 0; begin < 20; begin += 3)
    for (size_t size = 0; begin + size <= bytes.size(); size += size < 300 ? 1 : 37) {
      const auto part = std::span(bytes).subspan(begin, size);
      ASSERT_EQ(crc32_of(part), plain(part, 0)) << begin << " " << size;
      ASSERT_EQ(crc32_of(part, 0x12345678), plain(part, 0x12345678)) << begin << " " << size;
    }
}

}  // namespace
}  // namespace camshaft::onnx::checksum_test
