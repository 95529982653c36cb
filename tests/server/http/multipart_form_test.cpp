#include "server/http/multipart_form.h"

#include <gtest/gtest.h>

#include "server/core/status.h"
#include "server/http/openai_request.h"
#include "server/seed.h"

namespace camshaft::server::multipart_form_test {
namespace {

const std::string type = "multipart/form-data; boundary=xyz";

std::string part(const std::string& name, const std::string& content) {
  return "--xyz\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + content + "\r\n";
}

std::string refusal_of(const std::string& body, const std::string& content_type = type) {
  try {
    form_parts(body, content_type);
  } catch (const ServerError& failure) {
    EXPECT_EQ(failure.code(), StatusCode::invalid_argument);
    return failure.what();
  }
  return {};
}

TEST(MultipartForm, HasTheParts) {
  const std::string body = part("a", "1") + part("b", "") + part("c", "\r\n--xy\r\n") + "--xyz--\r\n";
  const auto parts = form_parts(body, type);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name + std::string(parts[0].content), "a1");
  EXPECT_EQ(parts[1].name + std::string(parts[1].content), "b");
  EXPECT_EQ(parts[2].name + std::string(parts[2].content), "c\r\n--xy\r\n");
  EXPECT_TRUE(form_parts("--xyz--", type).empty());
}

TEST(MultipartForm, ReadsWhatClientsWrite) {
  const std::string file =
      "--a'b\r\ncontent-type: audio/wav\r\nCONTENT-DISPOSITION: form-data; name=\"file\"; "
      "filename=\"a;b=\\\"c.wav\"\r\n"
      "\r\nRIFF\r\n--a'b--";
  for (const char* given : {"multipart/form-data; boundary=\"a'b\"", "Multipart/Form-Data;boundary=a'b; charset=utf-8",
                            "multipart/form-data ; charset=utf-8; boundary=a'b"}) {
    const auto parts = form_parts(file, given);
    ASSERT_EQ(parts.size(), 1u) << given;
    EXPECT_EQ(parts[0].name, "file");
    EXPECT_EQ(parts[0].content, "RIFF");
  }
  // What stands in front of the first boundary is no part.
  EXPECT_EQ(form_parts("preamble\r\n" + part("a", "1") + "--xyz--", type).size(), 1u);
  EXPECT_EQ(model_of_form(part("x", "y") + part("model", "tiny") + "--xyz--", type), "tiny");
  EXPECT_EQ(model_of_form(part("x", "y") + "--xyz--", type), std::nullopt);
}

TEST(MultipartForm, RefusesWhatIsNone) {
  const std::string whole = part("a", "1") + part("model", "tiny") + "--xyz--";
  for (const char* given : {"", "application/json", "multipart/form-data", "multipart/form-data; boundary=",
                            "multipart/form-datax; boundary=xyz", "multipart/mixed; boundary=xyz"})
    EXPECT_NE(refusal_of(whole, given), "") << given;
  EXPECT_NE(refusal_of(whole, "multipart/form-data; boundary=" + std::string(71, 'x')), "");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(refusal_of(whole.substr(0, size)), "") << size;
  EXPECT_NE(refusal_of("--xyz\r\nContent-Disposition: form-data\r\n\r\n1\r\n--xyz--"), "");
  EXPECT_NE(refusal_of("--xyz\r\n\r\n1\r\n--xyz--"), "");
  EXPECT_NE(refusal_of("--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\nx: " + std::string(9000, 'y') +
                       "\r\n\r\n1\r\n--xyz--"),
            "");
  std::string many;
  for (int i = 0; i < 65; ++i) many += part("a", "1");
  EXPECT_NE(refusal_of(many + "--xyz--"), "");
}

TEST(MultipartForm, AnyBytesAreReadOrRefused) {
  std::mt19937_64 random = seeded_random();
  const std::vector<std::string> words = {"\r\n",
                                          "--",
                                          "xyz",
                                          "--xyz",
                                          "\r\n\r\n",
                                          ":",
                                          ";",
                                          "\"",
                                          "name=",
                                          "\\",
                                          "Content-Disposition: form-data; name=\"a\"",
                                          "\xff",
                                          " ",
                                          "=",
                                          "a"};
  size_t read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string body = "--xyz";
    for (size_t count = random() % 12; count > 0; --count) body += words[random() % words.size()];
    if (random() % 2 == 0) body += "\r\n--xyz--";
    if (refusal_of(body).empty()) {
      for (const FormPart& each : form_parts(body, type)) {
        EXPECT_GE(each.content.data(), body.data());
        EXPECT_LE(each.content.data() + each.content.size(), body.data() + body.size());
      }
      ++read;
    }
  }
  EXPECT_GT(read, 0u);
}

}  // namespace
}  // namespace camshaft::server::multipart_form_test
