#include "tools/npy.h"

#include <gtest/gtest.h>

#include <span>

#include "camshaft/error.hpp"
#include "test_random.h"
#include "tools/utf8.h"

namespace camshaft::tools::npy_test {
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

std::vector<std::byte> file_of(const Tensor& tensor) {
  const NpyContent content = npy_content(tensor);
  std::vector<std::byte> bytes = bytes_of(content.header);
  const auto elements = content.storage.empty() ? content.elements : std::as_bytes(std::span(content.storage));
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

std::string refusal(const std::vector<std::byte>& bytes) {
  try {
    parse_npy(bytes, "'a.npy'");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor wide = tensor.converted(DType::f64);
  return {wide.as<double>(), wide.as<double>() + wide.size()};
}

TEST(Npy, ReadsAllVersionsAndAnyOrderOfEntries) {
  const std::string elements("\1\0\2\0\3\0", 6);
  const Tensor expected = Tensor::of<int16_t>(DType::i16, {3}, {1, 2, 3});
  for (const char version : {'\1', '\2', '\3'})
    EXPECT_EQ(parse_npy(file("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }  \n", elements, version), "a"),
              expected);
  EXPECT_EQ(parse_npy(file("{\"shape\":(3L,),'fortran_order':False,'descr':'<i2'}", elements), "a"), expected);
}

TEST(Npy, WhatIsWrittenIsReadAgain) {
  const std::vector<Tensor> tensors = {
      Tensor::of<float>(DType::f32, {2, 2}, {1, -2, 0.5f, 3}),
      Tensor::of<int64_t>(DType::i64, {}, {-7}),
      Tensor::of<uint8_t>(DType::boolean, {3}, {0, 1, 1}),
      Tensor::of<uint16_t>(DType::f16, {2}, {0x3c00, 0xc000}),
      Tensor(DType::f64, {0, 5}),
      Tensor::of<std::string>(DType::string, {2, 2}, {"", "Füße", "\xf0\x9f\x90\x88", "plain"}),
  };
  for (const Tensor& tensor : tensors) {
    const auto bytes = file_of(tensor);
    EXPECT_EQ(npy_content(tensor).header.size() % 64, 0u);
    EXPECT_EQ(parse_npy(bytes, "a"), tensor) << to_string(tensor.dtype());
  }
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
  const auto whole = file_of(Tensor::of<float>(DType::f32, {2, 2}, {1, 2, 3, 4}));
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

TEST(Npy, DtypesThatNumpyLacksAreWidenedAndNarrowedBack) {
  const std::vector<Tensor> tensors = {
      Tensor::of<uint16_t>(DType::bf16, {3}, {0x3f80, 0xc000, 0x7f80}),
      Tensor::of<uint8_t>(DType::f8e4m3, {2}, {0x38, 0xb8}),
      Tensor::of<uint8_t>(DType::f8e5m2, {2}, {0x3c, 0xfc}),
      Tensor::of<uint8_t>(DType::i4, {3}, {0x8f, 0x07}),
      Tensor::of<uint8_t>(DType::u4, {3}, {0x8f, 0x07}),
      Tensor::of<uint8_t>(DType::f4e2m1, {3}, {0x9f, 0x07}),
      Tensor::of<uint8_t>(DType::f8e4m3fnuz, {2}, {0x38, 0xb8}),
      Tensor::of<uint8_t>(DType::f8e5m2fnuz, {2}, {0x3c, 0xbc}),
      Tensor::of<uint8_t>(DType::f8e8m0, {3}, {0, 0x7f, 0xfe}),
      Tensor::of<uint8_t>(DType::i2, {5}, {0xe4, 0x01}),
      Tensor::of<uint8_t>(DType::u2, {5}, {0xe4, 0x03}),
  };
  for (const Tensor& tensor : tensors) {
    const Tensor array = to_numpy(tensor);
    EXPECT_NE(array.dtype(), tensor.dtype());
    EXPECT_EQ(numbers(array), numbers(tensor));
    EXPECT_EQ(from_numpy(array, tensor.dtype(), "a"), tensor) << to_string(tensor.dtype());
  }
  EXPECT_EQ(numbers(to_numpy(tensors[3])), (std::vector<double>{-1, -8, 7}));
  EXPECT_THROW(from_numpy(Tensor::of<int8_t>(DType::i8, {1}, {8}), DType::i4, "a"), Error);
  EXPECT_THROW(from_numpy(Tensor(DType::f64, {1}), DType::f32, "a"), Error);
  EXPECT_THROW(from_numpy(Tensor(DType::f32, {1}), DType::f16, "a"), Error);
}

TEST(Utf8, RoundTripsAndReplaces) {
  const std::u32string text = {U'a', U'\u00e9', U'\u4e2d', 0x1f408, 0x10ffff};
  EXPECT_EQ(from_utf8(to_utf8(text)), text);
  EXPECT_EQ(to_utf8(std::u32string{0xd800, 0x110000}), "\xef\xbf\xbd\xef\xbf\xbd");
  for (const char* bad : {"\xff", "\xc0", "\xe4\xb8", "\xed\xa0\x80", "\xc1\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(from_utf8(bad)[0], U'\ufffd');
}

}  // namespace
}  // namespace camshaft::tools::npy_test
