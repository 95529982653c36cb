#include "tools/npy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <span>

#include "camshaft/error.hpp"
#include "tools/utf8.h"

namespace camshaft::tools::npy_test {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> file_of(const Tensor& tensor) {
  const NpyContent content = npy_content(tensor);
  std::vector<std::byte> bytes = bytes_of(content.header);
  const auto elements = content.storage.empty() ? content.elements : std::as_bytes(std::span(content.storage));
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor wide = tensor.converted(DType::f64);
  return {wide.as<double>(), wide.as<double>() + wide.size()};
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
    const std::filesystem::path path = std::filesystem::temp_directory_path() / "camshaft_npy_test.npy";
    const auto bytes = file_of(tensor);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    EXPECT_EQ(npy_content(tensor).header.size() % 64, 0u);
    EXPECT_EQ(read_arrays(path).front().second, tensor) << to_string(tensor.dtype());
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

TEST(Utf8, Replaces) {
  EXPECT_EQ(from_utf8("a\xc3\xa9\xf0\x9f\x90\x88"), (std::u32string{U'a', U'\u00e9', 0x1f408}));
  for (const char* bad : {"\xff", "\xc0", "\xe4\xb8", "\xed\xa0\x80", "\xc1\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(from_utf8(bad)[0], U'\ufffd');
}

}  // namespace
}  // namespace camshaft::tools::npy_test
