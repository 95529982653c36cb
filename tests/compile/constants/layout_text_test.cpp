#include "compile/constants/layout_text.h"

#include <gtest/gtest.h>

namespace camshaft::layout_text_test {
namespace {

enum class Kind : uint8_t { one, two };

struct Layout {
  int64_t rows = 0;
  int32_t width = 0;
  bool transposed = false;
  Kind kind = Kind::one;
  bool operator==(const Layout&) const = default;
};

constexpr auto numbers = [](auto& layout, auto&& number) {
  number("test rows=", layout.rows);
  number("x", layout.width);
  number(" transposed=", layout.transposed);
  number(" kind=", layout.kind);
};

TEST(LayoutText, IsReadBack) {
  const Layout layout{int64_t{1} << 40, 64, true, Kind::two};
  const std::string text = layout_text(numbers, layout);
  EXPECT_EQ(text, "test rows=1099511627776x64 transposed=1 kind=1");
  Layout read;
  ASSERT_TRUE(read_layout_text(text, numbers, read));
  EXPECT_EQ(read, layout);
}

TEST(LayoutText, OthersAreNot) {
  for (const char* text :
       {"", "test", "test rows=", "test rows=1", "rest rows=1x2 transposed=1 kind=0",
        "test rows=1x2 transposed=1 kind=0 ", "test rows=1x2 transposed=1 kind=0x",
        "test rows=-1x2 transposed=1 kind=0", "test rows= 1x2 transposed=1 kind=0", "test rows=1x2 transposed=2 kind=0",
        "test rows=1x2 transposed=1 kind=256", "test rows=1x2147483648 transposed=1 kind=0",
        "test rows=9223372036854775808x1 transposed=1 kind=0"}) {
    Layout read;
    EXPECT_FALSE(read_layout_text(text, numbers, read)) << text;
  }
}

}  // namespace
}  // namespace camshaft::layout_text_test
