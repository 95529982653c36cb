#include "server/http/infer_document.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "server/core/data_type.h"
#include "server/http/element_reader.h"

namespace camshaft::server {

namespace {

using Kind = JsonScalar::Kind;
constexpr size_t deepest_nesting = 100;

[[noreturn]] void refuse_document(const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, message);
}

// Takes the parser's events, with a stack of where in the document it is.
class InferEvents {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  InferEvents(uint64_t limit, std::vector<DType> known_types) : limit_(limit), known_types_(std::move(known_types)) {}

  bool null() { return scalar({}); }
  bool boolean(bool value) { return scalar({.kind = Kind::boolean, .boolean = value}); }
  bool number_integer(number_integer_t value) {
    if (value >= 0) return number_unsigned(static_cast<uint64_t>(value));
    return scalar({.kind = Kind::negative, .negative = value});
  }
  bool number_unsigned(number_unsigned_t value) { return scalar({.kind = Kind::unsigned_number, .number = value}); }
  bool number_float(number_float_t value, const string_t& text) {
    return scalar({.kind = Kind::real, .real = value, .text = text});
  }
  bool string(string_t& value) { return scalar({.kind = Kind::text, .text = value}); }
  bool binary(binary_t&) { return false; }

  bool key(string_t& name) {
    key_ = std::move(name);
    return true;
  }
  bool start_object(size_t) {
    enter(object_within());
    return true;
  }
  bool start_array(size_t) {
    enter(list_within());
    return true;
  }
  bool end_object() {
    at_.pop_back();
    return true;
  }
  bool end_array() {
    at_.pop_back();
    return true;
  }
  bool parse_error(size_t position, const string_t&, const nlohmann::detail::exception& error) {
    refuse_document("failed to parse the request JSON buffer at byte " + std::to_string(position) + ": " +
                    error.what());
  }

  InferDocument document;
  bool types_came_late = false;

 private:
  enum class At {
    document,
    parameters,
    inputs,
    input,
    input_parameters,
    shape,
    data,
    outputs,
    output,
    output_parameters,
    ignored
  };

  void enter(At where) {
    if (at_.size() >= deepest_nesting)
      refuse_document("JSON nesting depth exceeds maximum allowed limit (" + std::to_string(deepest_nesting) + ")");
    at_.push_back(where);
  }

  At object_within() {
    if (at_.empty()) return At::document;
    switch (at_.back()) {
      case At::document:
        if (key_ == "parameters") return At::parameters;
        if (key_ == "inputs" || key_ == "outputs" || key_ == "id")
          refuse_document("Unable to parse '" + key_ + "': it is an object");
        return At::ignored;
      case At::inputs:
        document.inputs.emplace_back();
        return At::input;
      case At::outputs:
        document.outputs.emplace_back();
        return At::output;
      case At::input:
        return key_ == "parameters" ? At::input_parameters : unknown_member();
      case At::output:
        return key_ == "parameters" ? At::output_parameters : unknown_member();
      case At::shape:
      case At::data:
        refuse_document("Unable to parse 'data' or 'shape' of input '" + input().name + "': there is an object in it");
      case At::parameters:
      case At::input_parameters:
      case At::output_parameters:
        refuse_document("parameter '" + key_ + "' is an object: they are texts, numbers and booleans");
      case At::ignored:
        break;
    }
    return At::ignored;
  }

  At list_within() {
    if (at_.empty()) refuse_document("the request's JSON is a list and no object");
    switch (at_.back()) {
      case At::document:
        if (key_ == "inputs") {
          if (std::exchange(document.has_inputs, true)) refuse_document("there are two 'inputs'");
          return At::inputs;
        }
        if (key_ == "outputs") {
          if (std::exchange(has_outputs_, true)) refuse_document("there are two 'outputs'");
          return At::outputs;
        }
        if (key_ == "parameters" || key_ == "id") refuse_document("Unable to parse '" + key_ + "': it is a list");
        return At::ignored;
      case At::input:
        if (key_ == "shape") {
          if (input().shape) refuse_document("input '" + input().name + "' has two shapes");
          input().shape.emplace();
          return At::shape;
        }
        if (key_ == "data") {
          if (input().data) refuse_document("input '" + input().name + "' has two 'data'");
          start_data();
          return At::data;
        }
        return unknown_member();
      case At::data:
        return At::data;
      case At::shape:
        refuse_document("Unable to parse 'shape' of input '" + input().name + "': there is a list in it");
      case At::inputs:
      case At::outputs:
        refuse_document("Unable to parse 'inputs' or 'outputs': there is a list in it");
      case At::output:
        return unknown_member();
      case At::parameters:
      case At::input_parameters:
      case At::output_parameters:
        refuse_document("parameter '" + key_ + "' is a list: they are texts, numbers and booleans");
      case At::ignored:
        break;
    }
    return At::ignored;
  }

  // What has a meaning must not come in another form.
  At unknown_member() const {
    if (key_ == "name" || key_ == "datatype" || key_ == "shape" || key_ == "data" || key_ == "parameters")
      refuse_document("Unable to parse '" + key_ + "'");
    return At::ignored;
  }

  void start_data() {
    const size_t index = document.inputs.size() - 1;
    if (!input().dtype && index < known_types_.size()) input().dtype = known_types_[index];
    input().data.emplace();
    data_type_ = input().dtype;
    types_came_late |= !data_type_;
    if (!data_type_ || *data_type_ == DType::string || !input().shape) return;
    // Memory for as many as there should be; a shape is no promise, so not for more than the body could hold.
    int64_t count = 0;
    try {
      count = element_count(*input().shape);
    } catch (const ServerError&) {
      return;
    }
    const uint64_t width = std::max<size_t>(byte_size(*data_type_, 1), 1);
    if (static_cast<uint64_t>(count) <= (limit_ / 8) / width && static_cast<uint64_t>(count) * width <= (1u << 20))
      input().data->reserve(static_cast<size_t>(count) * width);
  }

  bool scalar(const JsonScalar& value) {
    if (at_.empty()) refuse_document("the request's JSON is no object");
    switch (at_.back()) {
      case At::data:
        return element(value);
      case At::shape:
        return size(value);
      case At::document:
        return member(value);
      case At::input:
        return input_member(value);
      case At::output:
        return output_member(value);
      case At::parameters:
        parameter(value, document.parameters[key_]);
        return true;
      case At::input_parameters:
        return input_parameter(value);
      case At::output_parameters:
        return output_parameter(value);
      case At::inputs:
      case At::outputs:
        refuse_document("Unable to parse 'inputs' or 'outputs': they are lists of objects");
      case At::ignored:
        break;
    }
    return true;
  }

  bool element(const JsonScalar& value) {
    if (!data_type_) return true;  // its type comes later: there is a second pass
    std::vector<std::byte>& data = *input().data;
    const size_t before = data.size();
    append_element(data, *data_type_, value, input().name);
    total_ += data.size() - before;
    if (total_ > limit_)
      refuse_document("JSON input '" + input().name + "' has a byte_size that exceeds the maximum allowed value of " +
                      std::to_string(limit_) + " bytes. Use --http-max-input-size to increase the limit.");
    return true;
  }

  bool size(const JsonScalar& value) {
    if (value.kind != Kind::unsigned_number ||
        value.number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse_document("Unable to parse 'shape' of input '" + input().name + "': sizes are numbers from 0 to 2^63 - 1");
    if (input().shape->size() >= 64)
      refuse_document("the shape of input '" + input().name + "' has more than 64 sizes");
    input().shape->push_back(static_cast<int64_t>(value.number));
    return true;
  }

  bool member(const JsonScalar& value) {
    if (key_ == "id")
      document.id = text(value);
    else if (key_ == "inputs" || key_ == "outputs" || key_ == "parameters")
      refuse_document("Unable to parse '" + key_ + "'");
    return true;
  }

  bool input_member(const JsonScalar& value) {
    if (key_ == "name")
      input().name = text(value);
    else if (key_ == "datatype")
      input().dtype = parse_protocol_type(text(value));
    else
      unknown_member();
    return true;
  }

  bool output_member(const JsonScalar& value) {
    if (key_ == "name")
      document.outputs.back().name = text(value);
    else
      unknown_member();
    return true;
  }

  bool input_parameter(const JsonScalar& value) {
    if (key_ == "binary_data_size")
      input().binary_size = natural(value);
    else
      shared_parameter(value, input().shared);
    return true;
  }

  bool output_parameter(const JsonScalar& value) {
    InferDocument::Output& output = document.outputs.back();
    if (key_ == "binary_data") {
      output.binary = truth(value);
    } else if (key_ == "classification") {
      output.classes = static_cast<int64_t>(std::min<uint64_t>(natural(value), std::numeric_limits<int32_t>::max()));
    } else {
      shared_parameter(value, output.shared);
    }
    return true;
  }

  void shared_parameter(const JsonScalar& value, std::optional<SharedRange>& shared) {
    const auto range = [&]() -> SharedRange& { return shared ? *shared : shared.emplace(); };
    if (key_ == "shared_memory_region")
      range().region = text(value);
    else if (key_ == "shared_memory_offset")
      range().offset = natural(value);
    else if (key_ == "shared_memory_byte_size")
      range().byte_size = natural(value);
  }

  void parameter(const JsonScalar& value, Parameter& parameter) const {
    switch (value.kind) {
      case Kind::boolean:
        parameter = value.boolean;
        break;
      case Kind::negative:
        parameter = value.negative;
        break;
      case Kind::unsigned_number:
        if (value.number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
          parameter = static_cast<int64_t>(value.number);
        else
          parameter = value.number;
        break;
      case Kind::real:
        parameter = value.real;
        break;
      case Kind::text:
        parameter = std::string(value.text);
        break;
      case Kind::null:
        refuse_document("parameter '" + key_ + "' is null: they are texts, numbers and booleans");
    }
  }

  std::string text(const JsonScalar& value) const {
    if (value.kind != Kind::text) refuse_document("Unable to parse '" + key_ + "': it is no text");
    return std::string(value.text);
  }
  uint64_t natural(const JsonScalar& value) const {
    if (value.kind != Kind::unsigned_number)
      refuse_document("Unable to parse '" + key_ + "': it is no number from 0 on");
    return value.number;
  }
  bool truth(const JsonScalar& value) const {
    if (value.kind != Kind::boolean) refuse_document("Unable to parse '" + key_ + "': it is neither true nor false");
    return value.boolean;
  }

  InferDocument::Input& input() { return document.inputs.back(); }

  const uint64_t limit_;
  const std::vector<DType> known_types_;
  std::vector<At> at_;
  std::string key_;
  std::optional<DType> data_type_;
  uint64_t total_ = 0;
  bool has_outputs_ = false;
};

void check_inputs(const InferDocument& document) {
  if (!document.has_inputs) refuse_document("Unable to parse 'inputs': the request has none");
  for (const InferDocument::Input& input : document.inputs) {
    if (input.name.empty()) refuse_document("Unable to parse 'name' of an input: it has none");
    if (!input.dtype) refuse_document("Unable to parse 'datatype' of input '" + input.name + "': it has none");
    if (!input.shape) refuse_document("Unable to parse 'shape' of input '" + input.name + "': it has none");
    const int forms = input.data.has_value() + input.binary_size.has_value() + input.shared.has_value();
    if (forms == 1) continue;
    std::string set;
    if (input.data) set += " 'data'";
    if (input.binary_size) set += " 'binary_data_size'";
    if (input.shared) set += " 'shared_memory_region'";
    refuse_document(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
        "'shared_memory_region' in 'parameters'. But" +
        (set.empty() ? " no field is set" : " set" + set) + ": input '" + input.name + "'");
  }
  for (const InferDocument::Output& output : document.outputs) {
    if (output.name.empty()) refuse_document("Unable to parse 'name' of an output: it has none");
    if (!output.shared) continue;
    if (output.classes > 0) refuse_document("Output can't set both 'shared_memory_region' and 'classification'");
    if (output.binary) refuse_document("Output can't set both 'shared_memory_region' and 'binary_data'");
  }
}

}  // namespace

InferDocument parse_infer_document(std::string_view json, uint64_t limit) {
  InferEvents events(limit, {});
  nlohmann::json::sax_parse(json.begin(), json.end(), &events);
  if (events.types_came_late) {
    std::vector<DType> types;
    for (const InferDocument::Input& input : events.document.inputs) {
      if (!input.dtype) refuse_document("Unable to parse 'datatype' of input '" + input.name + "': it has none");
      types.push_back(*input.dtype);
    }
    InferEvents again(limit, std::move(types));
    nlohmann::json::sax_parse(json.begin(), json.end(), &again);
    check_inputs(again.document);
    return std::move(again.document);
  }
  check_inputs(events.document);
  return std::move(events.document);
}

}  // namespace camshaft::server
