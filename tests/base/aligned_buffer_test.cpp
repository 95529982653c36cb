#include "base/aligned_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/format_bytes.h"

namespace camshaft::aligned_buffer_test {
namespace {

TEST(AlignedBuffer, is_aligned_and_writable) {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{1000}, size_t{5} << 20}) {
    AlignedBuffer buffer(size, "a test");
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    std::memset(buffer.data(), 7, size);
    EXPECT_EQ(buffer.as<uint8_t>()[size - 1], 7);
  }
  EXPECT_EQ(AlignedBuffer(0, "nothing").size(), 0u);
}

TEST(AlignedBuffer, moves) {
  AlignedBuffer a(100, "a test");
  std::byte* data = a.data();
  AlignedBuffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  AlignedBuffer c(50, "a test");
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.bytes().size(), 100u);
}

TEST(AlignedBuffer, an_impossible_size_names_itself_and_its_purpose) {
  for (const size_t size : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 - 5}) {
    try {
      AlignedBuffer buffer(size, "the arena of a context");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_NE(std::string(error.what()).find("the arena of a context"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(std::to_string(size)), std::string::npos) << error.what();
    }
  }
}

// The sanitizers' allocators end the process when the system has no memory; they are not what is tested here.
#if !defined(CAMSHAFT_SANITIZED)
TEST(AlignedBuffer, more_than_the_machine_has) {
  EXPECT_THROW(AlignedBuffer(size_t{1} << 46, "a test"), Error);
}
#endif

TEST(FormatBytes, picks_a_unit) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1023), "1023 bytes");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes((size_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(size_t{28} << 20), "28.0 MiB");
  EXPECT_EQ(format_bytes(SIZE_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace camshaft::aligned_buffer_test
