#include "reference/pointwise/scalar_math.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace camshaft::ops::scalar_math_test {
namespace {

template <class T>
bool has_form(ScalarFunction function) {
  const T a = 1, b = 1, c = 1;
  T out = 0;
  try {
    apply(function, &a, &b, &c, &out, 1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What the shape rules say of a function is what it has.
TEST(ScalarMath, HasTheFormsThatShapeRulesAllow) {
  for (int i = 0; i < scalar_function_count; ++i) {
    const auto function = static_cast<ScalarFunction>(i);
    EXPECT_EQ(has_form<double>(function), takes_reals(function)) << to_string(function);
    EXPECT_EQ(has_form<int64_t>(function), takes_integers(function)) << to_string(function);
    EXPECT_EQ(has_form<uint64_t>(function), takes_integers(function)) << to_string(function);
  }
}

}  // namespace
}  // namespace camshaft::ops::scalar_math_test
