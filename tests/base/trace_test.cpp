#include "base/trace.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace camshaft::trace_test {
namespace {

TEST(Trace, NamesWordsBetweenCommas) {
  setenv("CAMSHAFT_TRACE", "passes,layers", 1);
  EXPECT_TRUE(is_traced("passes"));
  EXPECT_TRUE(is_traced("layers"));
  EXPECT_FALSE(is_traced("layer"));
  setenv("CAMSHAFT_TRACE", "players", 1);
  EXPECT_FALSE(is_traced("layers"));
  setenv("CAMSHAFT_TRACE", "", 1);
  EXPECT_FALSE(is_traced("layers"));
  unsetenv("CAMSHAFT_TRACE");
  EXPECT_FALSE(is_traced("layers"));
}

}  // namespace
}  // namespace camshaft::trace_test
