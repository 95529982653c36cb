#include "server/http/openai_request.h"

#include <nlohmann/json.hpp>

#include "server/core/status.h"
#include "server/http/multipart_form.h"

namespace camshaft::server {

namespace {

using nlohmann::json;

constexpr int deepest = 100;
// A reader takes 64 bytes and more for each list or object, 8 to 40 for each value.
constexpr size_t most_containers = size_t{1} << 16, most_values = size_t{1} << 21;

[[noreturn]] void refuse_openai(const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, message);
}

/// Looks for the model among the members of the outermost object, and counts.
class ModelReader : public json::json_sax_t {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(false); }
  bool number_integer(json::number_integer_t) override { return value(false); }
  bool number_unsigned(json::number_unsigned_t) override { return value(false); }
  bool number_float(json::number_float_t, const std::string&) override { return value(false); }
  bool binary(json::binary_t&) override { return value(false); }
  bool string(std::string& text) override {
    if (depth_ == 1 && is_model_) model = std::move(text);
    return value(true);
  }
  bool key(std::string& name) override {
    is_model_ = depth_ == 1 && name == "model";
    return true;
  }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    refuse_openai(std::string("the body is no JSON: ") + error.what());
  }

  std::optional<std::string> model;

 private:
  bool value(bool fits = true) {
    if (depth_ == 0) refuse_openai("the body is no object of JSON");
    if (depth_ == 1 && is_model_ && !fits) refuse_openai("'model' is no text");
    if (++values_ > most_values) refuse_openai("the body has more than " + std::to_string(most_values) + " values");
    return true;
  }
  bool open(bool object) {
    if (depth_ == 0 && !object) refuse_openai("the body is no object of JSON");
    if (depth_ == 1 && is_model_) refuse_openai("'model' is no text");
    if (++depth_ > deepest) refuse_openai("the body is nested more than " + std::to_string(deepest) + " deep");
    if (++containers_ > most_containers)
      refuse_openai("the body has more than " + std::to_string(most_containers) + " lists and objects");
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  size_t containers_ = 0, values_ = 0;
  bool is_model_ = false;
};

}  // namespace

std::optional<std::string> model_of_openai(std::string_view text) {
  if (text.size() > longest_openai_body)
    refuse_openai("the body has " + std::to_string(text.size()) + " bytes; " + std::to_string(longest_openai_body) +
                  " are the most");
  ModelReader reader;
  json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader.model);
}

std::optional<std::string> model_of_form(std::string_view body, std::string_view content_type) {
  for (const FormPart& part : form_parts(body, content_type))
    if (part.name == "model") return std::string(part.content);
  return std::nullopt;
}

}  // namespace camshaft::server
