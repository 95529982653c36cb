#include "base/text/name_list.h"

#include <gtest/gtest.h>

namespace camshaft::name_list_test {
namespace {

TEST(NameList, HasTheFirstThree) {
  EXPECT_EQ(name_list({}), "");
  EXPECT_EQ(name_list({"a"}), "'a'");
  EXPECT_EQ(name_list({"a", "b", "c"}), "'a', 'b', 'c'");
  EXPECT_EQ(name_list({"a", "b", "c", "d"}), "'a', 'b', 'c', …");
}

}  // namespace
}  // namespace camshaft::name_list_test
