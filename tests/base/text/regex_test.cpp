#include "base/text/regex.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/text/unicode.h"

namespace camshaft::regex_test {
namespace {

bool matches(const std::string& pattern, const std::string& text) {
  return Regex(pattern).matches_all(decode_utf8(text));
}

TEST(Regex, MatchesTheWholeText) {
  EXPECT_TRUE(matches("a(b|c)*d?", "abcb"));
  EXPECT_FALSE(matches("a(b|c)*d?", "abcbx"));
  EXPECT_TRUE(matches("(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@gmail.com"));
  EXPECT_TRUE(matches("x{2,3}", "xxx"));
  EXPECT_FALSE(matches("x{2,3}", "xxxx"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("[^a-c]+", "xyz"));
  EXPECT_FALSE(matches(".", "\n"));
  EXPECT_TRUE(matches("(?s).", "\n"));
  EXPECT_TRUE(matches("(?i)straSSe[À-Ý]", "STRASSEé"));
  EXPECT_TRUE(matches("..", "日本"));
  EXPECT_TRUE(matches("\\bab\\b", "ab"));
  EXPECT_TRUE(matches("a{,2}", "a{,2}"));
  EXPECT_TRUE(matches("[]a]+", "]a"));
  EXPECT_TRUE(matches("[[:digit:]-]+", "1-2"));
  EXPECT_TRUE(matches("\\x41\\x{1F600}", "A😀"));
}

TEST(Regex, HostilePatternsTakeLinearTime) {
  EXPECT_FALSE(matches("(a*)*(a|aa)+b", std::string(20000, 'a')));
  EXPECT_TRUE(matches("(a?){200}a{200}", std::string(200, 'a')));
}

TEST(Regex, RefusesWhatItCannotMatch) {
  for (const char* pattern : {"(", ")", "a**********", "*a", "[a", "[b-a]", "(?<=a)b", "(?=a)", "\\1", "\\pL",
                              "a{2000}", "((a{1000}){1000}){1000}", "(((){1000}){1000}){1000}", "\\"})
    EXPECT_THROW(Regex{pattern}, Error) << pattern;
  EXPECT_THROW(Regex(std::string(100000, '(')), Error);
}

TEST(Regex, FindsTheLongestMatchAtTheLeft) {
  const auto text = decode_utf8("..ab abc");
  const Regex regex("a|ab|abc");
  EXPECT_EQ(regex.find(text, 0), std::pair(size_t{2}, size_t{4}));
  EXPECT_EQ(regex.find(text, 3), std::pair(size_t{5}, size_t{8}));
  EXPECT_EQ(regex.find(text, 6), std::nullopt);
}

}  // namespace
}  // namespace camshaft::regex_test
