#include "tools/number_option.h"

#include <gtest/gtest.h>

#include "camshaft/error.hpp"

namespace camshaft::tools::number_option_test {
namespace {

TEST(Numbers, Threads) {
  EXPECT_EQ(parse_threads(""), 0);
  EXPECT_EQ(parse_threads("1"), 1);
  EXPECT_EQ(parse_threads("1024"), 1024);
  for (const char* text : {"0", "-1", "many", "1.5", "1025", "99999999999999", "1 ", " 1", "+1", "0x1"}) {
    try {
      parse_threads(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   ("threads must be a whole number from 1 to 1024, not '" + std::string(text) + "'").c_str());
    }
  }
}

TEST(Numbers, SecondsAndTolerances) {
  EXPECT_EQ(parse_seconds("", "duration", 3), 3);
  EXPECT_EQ(parse_seconds("0", "duration", 3), 0);
  EXPECT_EQ(parse_seconds("0.25", "duration", 3), 0.25);
  EXPECT_EQ(parse_positive("1e-3", "tolerance", 1), 1e-3);
  for (const char* text : {"-1", "nan", "inf", "1s", "1e300"}) EXPECT_THROW(parse_seconds(text, "duration", 3), Error);
  for (const char* text : {"0", "-1", "nan", "inf", "x"}) EXPECT_THROW(parse_positive(text, "tolerance", 1), Error);
}

}  // namespace
}  // namespace camshaft::tools::number_option_test
