#include "base/error.h"

#include <gtest/gtest.h>

namespace camshaft::error_test {
namespace {

TEST(Error, carries_its_code_and_message) {
  try {
    throw Error(ErrorCode::io, "model.onnx: not found");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "model.onnx: not found");
    EXPECT_EQ(dynamic_cast<const Error&>(error).code(), ErrorCode::io);
  }
}

TEST(Error, every_code_has_its_own_name) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    const std::string name = to_string(static_cast<ErrorCode>(i));
    EXPECT_NE(name, "unknown error") << i;
    for (int j = 0; j < i; ++j) EXPECT_NE(name, to_string(static_cast<ErrorCode>(j)));
  }
}

}  // namespace
}  // namespace camshaft::error_test
