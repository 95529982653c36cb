#include "onnx/npy.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "test_random.h"

namespace camshaft::onnx::npy_test {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A file of version 1 (or 2, 3) with this dictionary and these elements.
std::vector<std::byte> file(const std::string& dictionary, const std::string& elements, char version = 1) {
  std::string out = "\x93NUMPY";
  out += version;
  out += '\0';
  out += static_cast<char>(dictionary.size() & 0xff);
  out += static_cast<char>(dictionary.size() >> 8);
  if (version > 1) out += std::string(2, '\0');
  return bytes_of(out + dictionary + elements);
}

std::string refusal(const std::vector<std::byte>& bytes) {
  try {
    parse_npy(bytes, "'a.npy'");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Npy, ReadsAllVersionsAndAnyOrderOfEntries) {
  const std::string elements("\1\0\2\0\3\0", 6);
  const Tensor expected = Tensor::of<int16_t>(DType::i16, {3}, {1, 2, 3});
  for (const char version : {'\1', '\2', '\3'})
    EXPECT_EQ(parse_npy(file("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }  \n", elements, version), "a"),
              expected);
  EXPECT_EQ(parse_npy(file("{\"shape\":(3L,),'fortran_order':False,'descr':'<i2'}", elements), "a"), expected);
}

TEST(Npy, FortranOrderIsRearranged) {
  const std::string elements("\0\3\1\4\2\5", 6);
  EXPECT_EQ(parse_npy(file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", elements), "a"),
            Tensor::of<uint8_t>(DType::u8, {2, 3}, {0, 1, 2, 3, 4, 5}));
}

TEST(Npy, RefusalsSayWhy) {
  const auto with = [](const std::string& descr, const std::string& shape = "(1,)") {
    return file("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", std::string(4, '\0'));
  };
  EXPECT_EQ(refusal(with("<f4")), "");
  EXPECT_NE(refusal(bytes_of("")).find("'a.npy' is not a NumPy array"), std::string::npos);
  EXPECT_NE(refusal(with(">f4")).find("big-endian"), std::string::npos);
  EXPECT_NE(refusal(with("|O")).find("Python objects"), std::string::npos);
  EXPECT_NE(refusal(with("<c8")).find("'<c8'"), std::string::npos);
  EXPECT_NE(refusal(with("<f4", "(2,)")).find("damaged"), std::string::npos);
  EXPECT_NE(refusal(with("<f4", "(4611686018427387905,)")).find("damaged"), std::string::npos);  // 2^64 + 4 bytes
  EXPECT_NE(refusal(with("<f4", "(4294967296, 4294967296)")), "");                               // 2^64 elements
  EXPECT_NE(refusal(with("<f4", "(-1,)")).find("malformed"), std::string::npos);
  EXPECT_NE(refusal(file("[('a', '<f4')]", "")).find("malformed"), std::string::npos);
  EXPECT_NE(refusal(file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "")).find("records"),
            std::string::npos);
  EXPECT_NE(refusal(file("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "abcd", 9)).find("version 9"),
            std::string::npos);
}

TEST(Npy, DamagedHeadersNeverCrash) {
  Random random = test_random();
  const auto whole = file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", std::string(16, '\1'));
  for (int round = 0; round < 20000; ++round) {
    auto bytes = whole;
    for (int64_t changes = random.integer(1, 3); changes > 0; --changes)
      bytes[static_cast<size_t>(random.integer(0, static_cast<int64_t>(bytes.size()) - 1))] =
          static_cast<std::byte>(random.integer(0, 255));
    if (random.uniform() < 0.3)
      bytes.resize(static_cast<size_t>(random.integer(0, static_cast<int64_t>(bytes.size()))));
    refusal(bytes);
  }
}

TEST(Npy, TextsBecomeUtf8) {
  const std::u32string wide = {U'\u00e9', 0x1f408, 0xd800, 0x110000};
  const std::string elements(reinterpret_cast<const char*>(wide.data()), wide.size() * 4);
  EXPECT_EQ(parse_npy(file("{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }", elements), "a"),
            Tensor::of<std::string>(DType::string, {2}, {"\xc3\xa9\xf0\x9f\x90\x88", "\xef\xbf\xbd\xef\xbf\xbd"}));
}

}  // namespace
}  // namespace camshaft::onnx::npy_test
