#include "server/core/restricted_api.h"

#include <gtest/gtest.h>

#include <fstream>

namespace camshaft::server::restricted_api_test {
namespace {

TEST(RestrictedApis, Forms) {
  RestrictedApis apis;
  EXPECT_TRUE(apis.empty());
  apis.add("health,metadata:key=value=more");
  apis.add("inference:other=", "prefix-");
  ASSERT_NE(apis.key(Api::metadata), nullptr);
  EXPECT_EQ(apis.key(Api::metadata)->first, "key");
  EXPECT_EQ(apis.key(Api::metadata)->second, "value=more");
  EXPECT_EQ(apis.key(Api::inference)->first, "prefix-other");
  EXPECT_EQ(apis.key(Api::trace), nullptr);
  for (const char* wrong :
       {"", "health", "health:key", "health:=value", "nothing:key=value", "trace,:k=v", "trace,health:k=v"}) {
    RestrictedApis again = apis;
    EXPECT_THROW(again.add(wrong), ServerError) << wrong;
  }
}

TEST(RestrictedApis, Secrets) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_TRUE(same_secret("", ""));
  for (const char* wrong : {"", "ab", "abcd", "abd", "ABC", "abcabc"}) EXPECT_FALSE(same_secret(wrong, "abc")) << wrong;
  EXPECT_FALSE(same_secret("a", ""));
}

TEST(BearerTokens, FileThatChanges) {
  const std::string file = testing::TempDir() + "camshaft_tokens.txt";
  std::ofstream(file) << "# comment\none\n\ntwo \r\n";
  BearerTokens tokens{std::filesystem::path(file)};
  EXPECT_TRUE(tokens.required());
  EXPECT_TRUE(tokens.accepts("Bearer one"));
  EXPECT_TRUE(tokens.accepts("bearer two"));
  for (const char* wrong :
       {"", "Bearer", "Bearer ", "Bearer # comment", "Bearer on", "Basic one", "one", "Bearer  one", "Bearerxone"})
    EXPECT_FALSE(tokens.accepts(wrong)) << wrong;
  std::ofstream(file) << "three\n";
  std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) + std::chrono::seconds(5));
  EXPECT_FALSE(tokens.accepts("Bearer one"));
  EXPECT_TRUE(tokens.accepts("Bearer three"));
  std::filesystem::remove(file);
  EXPECT_FALSE(tokens.accepts("Bearer three"));
  EXPECT_THROW(BearerTokens{std::filesystem::path(file)}, ServerError);
  EXPECT_FALSE(BearerTokens().required());
}

}  // namespace
}  // namespace camshaft::server::restricted_api_test
