#include "onnx/to_tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace camshaft::onnx::to_tensor_test {
namespace {

TEST(ToTensor, SharesAlignedBytesAndCopiesOthers) {
  const auto buffer = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const auto all = std::as_bytes(std::span(*buffer));
  TensorData data;
  data.dtype = DType::f32;
  data.dims = {2};
  data.count = 2;
  data.owner = buffer;

  data.bytes = all.subspan(4, 8);
  EXPECT_EQ(to_tensor(data).data(), data.bytes.data());
  EXPECT_EQ(to_tensor(data), Tensor::of<float>(DType::f32, {2}, {2, 3}));

  data.bytes = all.subspan(1, 8);
  const Tensor copy = to_tensor(data);
  EXPECT_NE(copy.data(), data.bytes.data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copy.data()) % alignof(float), 0U);
  EXPECT_EQ(std::memcmp(copy.data(), data.bytes.data(), 8), 0);

  data.dtype = DType::u8;
  data.dims = {8};
  data.count = 8;
  EXPECT_EQ(to_tensor(data).data(), data.bytes.data()) << "bytes need no alignment";
}

TEST(ToTensor, Strings) {
  TensorData data;
  data.dtype = DType::string;
  data.dims = {2};
  data.count = 2;
  data.strings = {"a", "longer than the small string buffer"};
  EXPECT_EQ(to_tensor(data), Tensor::of(DType::string, {2}, data.strings));
}

}  // namespace
}  // namespace camshaft::onnx::to_tensor_test
