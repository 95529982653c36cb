#include "ir/ops/scalar_function.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.h"

namespace camshaft::scalar_function_test {
namespace {

TEST(ScalarFunction, NamesParseBackAndAreDistinct) {
  std::set<std::string_view> names;
  for (int i = 0; i < scalar_function_count; ++i) {
    const auto function = static_cast<ScalarFunction>(i);
    EXPECT_EQ(parse_scalar_function(to_string(function)), function);
    names.insert(to_string(function));
  }
  EXPECT_EQ(static_cast<int>(names.size()), scalar_function_count);
  EXPECT_EQ(to_string(ScalarFunction::less_or_equal), "less_or_equal");
  EXPECT_EQ(to_string(ScalarFunction::shift_right), "shift_right");
}

TEST(ScalarFunction, ArityAndResult) {
  EXPECT_EQ(arity(ScalarFunction::bitwise_not), 1);
  EXPECT_EQ(arity(ScalarFunction::add), 2);
  EXPECT_EQ(arity(ScalarFunction::shift_right), 2);
  EXPECT_EQ(arity(ScalarFunction::select), 3);
  EXPECT_EQ(result_dtype(ScalarFunction::is_nan, DType::f32), DType::boolean);
  EXPECT_EQ(result_dtype(ScalarFunction::equal, DType::i64), DType::boolean);
  EXPECT_EQ(result_dtype(ScalarFunction::select, DType::f16), DType::f16);
}

TEST(ScalarFunction, UnknownNameListsTheKnownOnes) {
  try {
    parse_scalar_function("softplus");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("softplus"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("sigmoid"), std::string::npos);
  }
}

}  // namespace
}  // namespace camshaft::scalar_function_test
