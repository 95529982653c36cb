#include "server/core/base64.h"

#include <gtest/gtest.h>

#include "server/core/status.h"

namespace camshaft::server::base64_test {
namespace {

TEST(Base64, Rfc4648) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9v"), "foo");
  EXPECT_EQ(decode_base64("Zm9v\nYmFy\r\n"), "foobar");
  EXPECT_EQ(decode_base64("Zm9vYg"), "foob");
  EXPECT_EQ(decode_base64("//79"), "\xff\xfe\xfd");
  for (const char* wrong : {"Z", "Zm9vY", "Zm9v!", "Zm=v", "Zm9-"})
    EXPECT_THROW(decode_base64(wrong), ServerError) << wrong;
}

}  // namespace
}  // namespace camshaft::server::base64_test
