#include "server/http/openai_request.h"

#include <gtest/gtest.h>

#include "server/core/status.h"

namespace camshaft::server::openai_request_test {
namespace {

std::string refusal_of(const std::string& json) {
  try {
    model_of_openai(json);
  } catch (const ServerError& failure) {
    EXPECT_EQ(failure.code(), StatusCode::invalid_argument);
    return failure.what();
  }
  return {};
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(OpenAiRequest, FindsTheModelOfTheOutermostObject) {
  EXPECT_EQ(model_of_openai(R"({"model": "a"})"), "a");
  EXPECT_EQ(model_of_openai(R"({"x": {"model": "b"}, "y": [{"model": "c"}], "model": "a", "z": "d"})"), "a");
  EXPECT_EQ(model_of_openai(R"({"x": {"model": "b"}})"), std::nullopt);
  EXPECT_EQ(model_of_openai(R"({"model": null})"), std::nullopt);
  EXPECT_EQ(model_of_openai("{}"), std::nullopt);
  EXPECT_EQ(model_of_openai(R"({"model": "a", "model": "b"})"), "b");  // as Python reads it
}

TEST(OpenAiRequest, RefusesWhatIsNoObject) {
  for (const char* text : {"", " ", "[]", "[{\"model\": \"a\"}]", "1", "\"model\"", "null", "{", "{]", "{\"a\": 1,}",
                           "{} {}", "{\"a\": NaN}", "{\"a\": 1e999}", "{\"a\": \"\\ud800\"}", "{\"a\": \"\xff\"}"})
    EXPECT_NE(refusal_of(text), "") << text;
  for (const char* value : {"1", "true", "[]", "{}", "1.5", "-1"})
    EXPECT_EQ(refusal_of("{\"model\": " + std::string(value) + "}"), "'model' is no text") << value;
}

TEST(OpenAiRequest, RefusesWhatTakesMuchMemoryToRead) {
  const auto deep = [](size_t depth) { return "{\"a\":" + repeated("[", depth) + repeated("]", depth) + "}"; };
  EXPECT_EQ(refusal_of(deep(99)), "");
  EXPECT_NE(refusal_of(deep(100)), "");
  EXPECT_NE(refusal_of("{\"a\":" + repeated("[", 1 << 20)), "");  // before its end is missed
  const auto wide = [](const std::string& item, size_t count) {
    return "{\"a\":[" + repeated(item + ",", count - 1) + item + "]}";
  };
  EXPECT_EQ(refusal_of(wide("[]", (1 << 16) - 2)), "");
  EXPECT_NE(refusal_of(wide("[]", (1 << 16) - 1)), "");
  EXPECT_EQ(refusal_of(wide("1", 1 << 21)), "");
  EXPECT_NE(refusal_of(wide("1", (1 << 21) + 1)), "");
  EXPECT_NE(refusal_of(wide("\"" + repeated("x", 1 << 20) + "\"", 17)), "");
}

}  // namespace
}  // namespace camshaft::server::openai_request_test
