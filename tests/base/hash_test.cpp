#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

#include "test_random.h"

namespace camshaft::hash_test {
namespace {

TEST(Hash, known_values) {
  // XXH3 with seed 0 of the empty input, from the specification's test vectors.
  EXPECT_EQ(to_hex(hash64("")), "2d06800538d394c2");
  EXPECT_EQ(to_hex(hash128("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(to_hex(uint64_t{0x12ab}), "00000000000012ab");
}

TEST(Hash, streaming_equals_one_shot_however_it_is_cut) {
  Random random = test_random();
  for (const size_t size : {0, 1, 3, 16, 17, 128, 129, 240, 241, 256, 1023, 1024, 1025, 5000, 100000}) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(random.next());
    Hasher hasher;
    for (size_t begin = 0; begin < size;) {
      const size_t piece = std::min<size_t>(size - begin, random.next() % 700);
      hasher.add(std::string_view(text).substr(begin, piece));
      begin += piece;
    }
    const Hasher copy = hasher;
    EXPECT_EQ(hasher.hash64(), hash64(text)) << size;
    EXPECT_EQ(hasher.hash128(), hash128(text)) << size;
    EXPECT_EQ(copy.hash128(), hash128(text)) << size;
    hasher.add("more");
    EXPECT_EQ(hasher.hash64(), hash64(text + "more")) << size;
    EXPECT_NE(hash64(text), hash64(text + "more"));
  }
}

// hash64() of many bytes takes another path on processors with AVX2; the streaming one is the library's.
TEST(Hash, is_the_same_at_every_alignment) {
  Random random = test_random();
  std::string text(5'000'000, '\0');
  for (char& c : text) c = static_cast<char>(random.next());
  for (int round = 0; round < 40; ++round) {
    const size_t begin = random.next() % 200, size = random.next() % (round % 2 == 0 ? 5'000 : text.size() - begin);
    const std::string_view part = std::string_view(text).substr(begin, size);
    Hasher hasher;
    hasher.add(part);
    EXPECT_EQ(hasher.hash64(), hash64(part)) << size << " bytes from " << begin;
  }
}

}  // namespace
}  // namespace camshaft::hash_test
