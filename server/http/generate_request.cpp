#include "server/http/generate_request.h"

#include "server/core/data_type.h"
#include "server/http/element_reader.h"
#include "server/http/json_document.h"

namespace camshaft::server {

namespace {

using nlohmann::json;

[[noreturn]] void refuse_generate(const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, message);
}

// As append_element() has it. `real` keeps the text that a real is read from.
JsonScalar scalar_of(const json& value, std::string& real, const std::string& name) {
  switch (value.type()) {
    case json::value_t::boolean:
      return {.kind = JsonScalar::Kind::boolean, .boolean = value.get<bool>()};
    case json::value_t::number_unsigned:
      return {.kind = JsonScalar::Kind::unsigned_number, .number = value.get<uint64_t>()};
    case json::value_t::number_integer:
      return {.kind = JsonScalar::Kind::negative, .negative = value.get<int64_t>()};
    case json::value_t::number_float:
      real = value.dump();  // the shortest text of the same value
      return {.kind = JsonScalar::Kind::real, .real = value.get<double>(), .text = real};
    case json::value_t::string:
      return {.kind = JsonScalar::Kind::text, .text = value.get_ref<const std::string&>()};
    default:
      refuse_generate("attempt to access JSON non-scalar in input '" + name + "'");
  }
}

std::vector<int64_t> generated_shape(const ModelConfig& config, const inference::ModelInput& input, int64_t count) {
  std::vector<int64_t> shape(input.dims().begin(), input.dims().end());
  if (config.max_batch_size() > 0) shape.insert(shape.begin(), -1);
  int64_t left = count;
  bool fits = true;
  for (const int64_t size : shape) {
    if (size == -1) continue;
    fits = fits && size > 0 && left % size == 0;
    if (fits) left /= size;
  }
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    if (*size != -1) continue;
    *size = left;
    left = 1;
  }
  if (!fits || left != 1)
    refuse_generate("The schema can not convert input '" + input.name() + "' to tensor with proper shape: it has " +
                    std::to_string(count) + " elements");
  return shape;
}

void add_input(const ModelConfig& config, const inference::ModelInput& input, const json& value, uint64_t limit,
               Request& request) {
  NamedTensor tensor;
  tensor.name = input.name();
  tensor.dtype = parse_config_type(inference::DataType_Name(input.data_type()));
  std::vector<std::byte> data;
  std::string real;
  const auto add = [&](const json& element) {
    append_element(data, tensor.dtype, scalar_of(element, real, input.name()), input.name());
    if (data.size() > limit)
      refuse_generate("request with input '" + input.name() + "' exceeds the maximum allowed input size of " +
                      std::to_string(limit) + ". Use --http-max-input-size to increase the limit.");
  };
  if (value.is_array()) {
    for (const json& element : value) add(element);
  } else {
    add(value);
  }
  tensor.shape = generated_shape(config, input, value.is_array() ? static_cast<int64_t>(value.size()) : 1);
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(data));
  tensor.data = {*owner, owner};
  request.inputs.push_back(std::move(tensor));
}

void add_members(const ModelConfig& config, const json& object, bool nested, uint64_t limit, Request& request) {
  for (const auto& [name, value] : object.items()) {
    const auto input = std::find_if(config.input().begin(), config.input().end(),
                                    [&, &wanted = name](const auto& candidate) { return candidate.name() == wanted; });
    if (input != config.input().end()) {
      add_input(config, *input, value, limit, request);
    } else if (!nested && name == "parameters") {
      if (!value.is_object()) refuse_generate("Expected JSON object for keyword: 'parameters'");
      add_members(config, value, true, limit, request);
    } else if (!nested && name == "id") {
      if (!value.is_string()) refuse_generate("Unable to parse 'id': it is no text");
      request.id = value.get<std::string>();
    } else {
      request.parameters[name] = parameter_of(name, value);
    }
  }
}

}  // namespace

void decode_generate(std::string_view text, const ModelConfig& config, uint64_t limit, Request& request) {
  const json document = parse_document(text);
  add_members(config, document, false, limit, request);
}

}  // namespace camshaft::server
