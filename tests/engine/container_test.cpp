#include "engine/container.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "engine/container_format.h"
#include "test_random.h"

namespace camshaft::container_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t size, uint64_t seed) {
  Random random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

// "" if it opens, else the message; anything but Error(corrupt_engine) fails the test.
std::string refusal(std::span<const std::byte> bytes) {
  try {
    // A copy of exactly this size on the heap: reading beyond it is seen by AddressSanitizer.
    const Bytes copy(bytes.begin(), bytes.end());
    open_container(copy, "net.engine");
    return "";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ErrorCode::corrupt_engine) << message;
    EXPECT_EQ(message.rfind("net.engine: ", 0), 0u) << message;
    return message;
  }
}

void expect_refusal(std::span<const std::byte> bytes, const std::string& part) {
  const std::string message = refusal(bytes);
  EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "' should contain '" << part << "'";
}

// Makes the header's checksum right again, as one who means harm would.
void reseal(Bytes& bytes) {
  namespace format = container_format;
  const auto header_size = format::load<uint64_t>(bytes, format::header_size_at);
  if (header_size < format::fixed_size || header_size > bytes.size()) return;
  const auto checksum = format::header_checksum(std::span(bytes).first(header_size));
  format::store(std::span(bytes), format::header_checksum_at, checksum);
}

struct Small {
  Bytes plan = random_bytes(5000, 1), a = random_bytes(100, 2), b = random_bytes(64, 3), c = random_bytes(1, 4);
  std::vector<SectionSource> sections;
  std::vector<uint64_t> offsets;
  Bytes bytes;

  Small() {
    sections.emplace_back("plan", plan);
    sections.emplace_back("empty");
    sections.emplace_back("weights");
    for (const Bytes* piece : {&a, &b, &c}) offsets.push_back(sections.back().add(*piece));
    bytes = container_bytes(sections);
  }
};

struct Large {
  Bytes tail = random_bytes(1000, 5), weights = random_bytes((9 << 20) + 123, 6);
  std::vector<SectionSource> sections{{"head", tail}, {"weights", weights}, {"tail", tail}};
  Bytes bytes = container_bytes(sections);
};

TEST(Container, gives_back_what_was_written) {
  const Small small;
  const Container container = open_container(small.bytes, "net.engine");
  ASSERT_EQ(container.sections().size(), 3u);
  EXPECT_TRUE(std::ranges::equal(container.section("plan"), small.plan));
  EXPECT_EQ(container.section("empty").size(), 0u);
  EXPECT_EQ(small.offsets, (std::vector<uint64_t>{0, 128, 192}));
  const auto weights = container.section("weights");
  ASSERT_EQ(weights.size(), 193u);
  EXPECT_TRUE(std::ranges::equal(weights.subspan(0, 100), small.a));
  EXPECT_TRUE(std::all_of(weights.begin() + 100, weights.begin() + 128, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(std::ranges::equal(weights.subspan(128, 64), small.b));
  EXPECT_TRUE(std::ranges::equal(weights.subspan(192, 1), small.c));
  for (const Container::Section& section : container.sections()) EXPECT_EQ(section.offset % container_page, 0u);
  EXPECT_TRUE(container.has("plan"));
  EXPECT_FALSE(container.has("kernels"));
  EXPECT_THROW(container.section("kernels"), Error);
  EXPECT_TRUE(begins_like_container(small.bytes));
  EXPECT_FALSE(begins_like_container(small.plan));
  EXPECT_EQ(refusal(container_bytes({})), "");
}

TEST(Container, file_and_memory_hold_the_same_bytes) {
  const Large large;
  TemporaryFolder folder;
  const std::string path = folder.file("net.engine");
  write_container(path, large.sections);
  const auto file = MappedFile::open(path);
  ASSERT_EQ(file->size(), large.bytes.size());
  EXPECT_TRUE(std::ranges::equal(file->bytes(), large.bytes));
  const Container container = open_container(file);
  EXPECT_TRUE(std::ranges::equal(container.section("weights"), large.weights));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(container.section("weights").data()) % container_page, 0u);
}

TEST(Container, writing_can_be_cancelled_and_leaves_nothing) {
  const Large large;
  TemporaryFolder folder;
  Cancellation cancellation;
  cancellation.cancel();
  try {
    write_container(folder.file("net.engine"), large.sections, cancellation);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(Container, the_writer_refuses_bad_sections) {
  for (const char* kind : {"", "ninechars", "Plan", "a b"}) EXPECT_THROW(SectionSource{kind}, Error) << kind;
  const std::vector<SectionSource> twice{SectionSource("plan"), SectionSource("plan")};
  EXPECT_THROW(container_bytes(twice), Error);
}

TEST(Container, damage_is_reported_with_its_place) {
  Large large;
  const size_t start = open_container(large.bytes, "x").sections()[1].offset;
  large.bytes[start + 2 * container_chunk + 7] ^= std::byte{0x40};
  large.bytes[start + container_chunk] ^= std::byte{0x40};
  const std::string message = refusal(large.bytes);
  EXPECT_NE(message.find("'weights'"), std::string::npos) << message;
  EXPECT_NE(message.find("bytes " + std::to_string(start + container_chunk) + " to "), std::string::npos) << message;
  EXPECT_NE(message.find("camshaft build"), std::string::npos) << message;
}

TEST(Container, every_flipped_byte_is_noticed) {
  Random random = test_random();
  Small small;
  for (size_t i = 0; i < small.bytes.size(); ++i) {
    const auto flip = static_cast<std::byte>(1 + random.next() % 255);
    small.bytes[i] ^= flip;
    ASSERT_NE(refusal(small.bytes), "") << "byte " << i;
    small.bytes[i] ^= flip;
  }
  Large large;
  for (int round = 0; round < 60; ++round) {
    const size_t i = random.next() % large.bytes.size();
    large.bytes[i] ^= std::byte{0x10};
    ASSERT_NE(refusal(large.bytes), "") << "byte " << i;
    large.bytes[i] ^= std::byte{0x10};
  }
  EXPECT_EQ(refusal(small.bytes) + refusal(large.bytes), "");
}

TEST(Container, the_last_section_can_be_checked_later) {
  Random random = test_random();
  Small small;
  const std::vector<Container::Section> sections = open_container(small.bytes, "x").sections();
  const Container::Section& last = sections.back();
  const auto open = [&](std::string_view kind) {
    return open_container(MappedFile::from_bytes(small.bytes, "net.engine"), kind);
  };
  EXPECT_NO_THROW(open(last.kind).verify(last.kind));
  for (size_t i = 0; i < small.bytes.size(); ++i) {
    const auto flip = static_cast<std::byte>(1 + random.next() % 255);
    small.bytes[i] ^= flip;
    if (i < last.offset) {
      ASSERT_THROW(open(last.kind), Error) << "byte " << i;
    } else {
      const Container container = open(last.kind);
      ASSERT_THROW(container.verify(last.kind), Error) << "byte " << i;
      ASSERT_THROW(open(sections.front().kind), Error) << "byte " << i;
      ASSERT_THROW(open({}), Error) << "byte " << i;
    }
    small.bytes[i] ^= flip;
  }
}

TEST(Container, every_truncation_is_noticed) {
  const Small small;
  for (size_t size = 0; size < small.bytes.size(); ++size) {
    ASSERT_NE(refusal(std::span(small.bytes).first(size)), "") << size;
  }
  expect_refusal(std::span(small.bytes).first(small.bytes.size() - 1), "truncated");
  expect_refusal(std::span(small.bytes).first(40), "truncated");
  expect_refusal({}, "empty");
  Bytes longer = small.bytes;
  longer.push_back(std::byte{0});
  expect_refusal(longer, "1 bytes follow");
}

TEST(Container, another_format_version_names_both_and_the_way_out) {
  Small small;
  container_format::store(std::span(small.bytes), container_format::version_at, uint32_t{77});
  expect_refusal(small.bytes, "version 77");
  expect_refusal(small.bytes, "version " + std::to_string(container_version));
  expect_refusal(small.bytes, "rebuild it with `camshaft build`");
  // A later version may have a header of another size and other checksums: the version must be seen first.
  expect_refusal(std::span(small.bytes).first(20), "version 77");
}

TEST(Container, other_files_are_not_engines) {
  const Bytes onnx = random_bytes(5000, 9);
  expect_refusal(onnx, "not a Camshaft engine");
  expect_refusal(std::span(onnx).first(3), "not a Camshaft engine");
}

TEST(Container, hostile_headers_with_right_checksums_are_refused) {
  namespace format = container_format;
  const Small small;
  const size_t fields_end = format::fixed_size + 3 * format::entry_size;
  const uint64_t size = small.bytes.size();
  const std::vector<uint64_t> values = {
      0,        1,         63,         64,           4095,         4096,       4097,
      size - 1, size,      size + 1,   2 * size,     1ull << 31,   1ull << 32, 1ull << 63,
      ~0ull,    ~0ull - 1, ~0ull - 63, ~0ull - 4095, ~0ull - size, ~0ull / 8,  ~0ull / 24};
  // A changed kind may be another, valid name; all else contradicts the file.
  const auto in_kind = [&](size_t at) {
    return at >= format::fixed_size && at < fields_end &&
           (at - format::fixed_size) % format::entry_size < format::kind_size;
  };
  for (size_t at = 12; at < fields_end; at += 4) {
    for (const uint64_t value : values) {
      for (const size_t width : {4, 8}) {
        Bytes bytes = small.bytes;
        std::memcpy(bytes.data() + at, &value, width);
        reseal(bytes);
        if (bytes == small.bytes) continue;
        const std::string message = refusal(bytes);
        if (!in_kind(at)) {
          ASSERT_NE(message, "") << "at " << at << " value " << value << " width " << width;
        }
      }
    }
  }
  // All that the header's checksum guards, one byte at a time.
  for (size_t at = 8; at < format::load<uint64_t>(small.bytes, format::header_size_at); ++at) {
    if (at >= format::header_checksum_at && at < format::header_checksum_at + 8) continue;
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bytes = small.bytes;
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      reseal(bytes);
      const std::string message = refusal(bytes);
      if (!in_kind(at)) {
        ASSERT_NE(message, "") << "at " << at << " bit " << bit;
      }
    }
  }
}

TEST(Container, garbage_never_crashes) {
  Random random = test_random();
  const Small small;
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = random_bytes(random.next() % 300, random.next());
    // Half of them go on as an engine does, as far as the checks one after the other.
    const size_t kept = std::min<size_t>(bytes.size(), round % 2 == 0 ? random.next() % 64 : 0);
    std::copy_n(small.bytes.begin(), kept, bytes.begin());
    ASSERT_NE(refusal(bytes), "");
  }
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = small.bytes;
    for (unsigned change = 1 + random.next() % 4; change > 0; --change) {
      const size_t at = random.next() % 2 == 0 ? random.next() % 200 : random.next() % bytes.size();
      bytes[at] = static_cast<std::byte>(random.next());
    }
    if (random.next() % 4 == 0) bytes.resize(random.next() % bytes.size());
    if (bytes.size() >= 64) reseal(bytes);
    refusal(bytes);
  }
}

}  // namespace
}  // namespace camshaft::container_test
