#include "server/grpc/infer_request.h"

#include <algorithm>
#include <array>
#include <string>

#include "server/core/data_type.h"
#include "server/grpc/tensor_contents.h"

namespace camshaft::server {
namespace {

[[noreturn]] void invalid(const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, message);
}

/// T of a parameter; `expected` says in the error what it should be.
template <class T>
const T& parameter_value(std::string_view name, const std::optional<Parameter>& value, const char* expected) {
  if (value)
    if (const T* found = std::get_if<T>(&*value)) return *found;
  invalid("invalid value type for '" + std::string(name) + "' parameter, expected " + expected + ".");
}

/// Of an integer, signed or not, from 0 on.
uint64_t natural_parameter(std::string_view name, const std::optional<Parameter>& value, const char* expected) {
  if (value)
    if (const uint64_t* found = std::get_if<uint64_t>(&*value)) return *found;
  const int64_t number = parameter_value<int64_t>(name, value, expected);
  if (number < 0) invalid("invalid value for '" + std::string(name) + "', expected value >= 0.");
  return static_cast<uint64_t>(number);
}

constexpr std::string_view empty_final_parameter = "triton_enable_empty_final_response";

void request_parameter(std::string_view name, const std::optional<Parameter>& value, InferRequest& to) {
  Request& request = to.request;
  if (name == "sequence_id") {
    request.sequence = {};
    if (value && std::holds_alternative<std::string>(*value)) {
      request.sequence.text = std::get<std::string>(*value);
    } else if (value && std::holds_alternative<uint64_t>(*value)) {
      request.sequence.number = std::get<uint64_t>(*value);
    } else {  // a negative number is as good a name as any
      request.sequence.number =
          static_cast<uint64_t>(parameter_value<int64_t>(name, value, "int64_param or string_param"));
    }
  } else if (name == "sequence_start") {
    request.sequence_start = parameter_value<bool>(name, value, "bool_param");
  } else if (name == "sequence_end") {
    request.sequence_end = parameter_value<bool>(name, value, "bool_param");
  } else if (name == "priority") {
    request.priority = natural_parameter(name, value, "int64_param or uint64_param");
  } else if (name == "timeout") {
    request.timeout_us = natural_parameter(name, value, "int64_param");
  } else if (name == empty_final_parameter) {
    to.enable_empty_final_response = parameter_value<bool>(name, value, "bool_param");
  } else if (name.starts_with("triton_")) {
    invalid(
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
        "'triton_' are allowed: " +
        std::string(empty_final_parameter));
  } else if (name != "binary_data_output") {  // what HTTP's clients say; here all is binary
    if (!value) invalid("the parameter '" + std::string(name) + "' has no value");
    request.parameters.insert_or_assign(std::string(name), *value);
  }
}

/// Where in the client's memory a tensor lies; nullopt: it does not.
std::optional<SharedMemory::Slice> shared_slice(std::string_view tensor, const WireParameters& parameters,
                                                const SharedMemory& memory) {
  const auto* region = find_parameter(parameters, "shared_memory_region");
  const auto type_error = [&](const char* name, const char* expected) {
    invalid(std::string("invalid value type for '") + name + "' parameter for tensor '" + std::string(tensor) +
            "', expected " + expected + ".");
  };
  const auto number = [&](const char* name) -> std::optional<uint64_t> {
    const auto* value = find_parameter(parameters, name);
    if (value == nullptr) return std::nullopt;
    if (region == nullptr) {
      invalid(std::string("'") + name + "' can not be specified without 'shared_memory_region' parameter for tensor '" +
              std::string(tensor) + "'");
    }
    if (!*value || !std::holds_alternative<int64_t>(**value)) type_error(name, "int64_param");
    const int64_t given = std::get<int64_t>(**value);
    if (given < 0) {
      invalid(std::string("invalid value for '") + name + "' parameter for tensor '" + std::string(tensor) +
              "', expected value >= 0.");
    }
    return static_cast<uint64_t>(given);
  };
  const std::optional<uint64_t> offset = number("shared_memory_offset");
  const std::optional<uint64_t> byte_size = number("shared_memory_byte_size");
  if (region == nullptr) return std::nullopt;
  if (!*region || !std::holds_alternative<std::string>(**region)) type_error("shared_memory_region", "string_param");
  if (!byte_size) {
    invalid("'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '" +
            std::string(tensor) + "'");
  }
  return memory.slice(std::get<std::string>(**region), offset.value_or(0), *byte_size);
}

/// What data the inputs have, in their order.
class InputReader {
 public:
  InputReader(const InferMessage& message, const std::shared_ptr<const void>& owner, const SharedMemory& memory,
              Request& request)
      : message_(message), owner_(owner), memory_(memory), request_(request), model_(message.model_name) {}

  NamedTensor read(const InferMessage::Input& input) {
    NamedTensor tensor{std::string(input.name), parse_protocol_type(input.datatype), input.shape, {}};
    tensor.data = data(input, tensor.dtype);
    return tensor;
  }

  /// Raw contents that no input takes are a mistake: they would be those of another.
  void finish() const {
    if (raw_ != message_.raw_input_contents.size()) {
      invalid("expected " + std::to_string(raw_) + " raw_input_contents for the inputs of model '" + model_ +
              "' that are not in shared memory, got " + std::to_string(message_.raw_input_contents.size()));
    }
  }

 private:
  Bytes data(const InferMessage::Input& input, DType dtype) {
    const auto where = [&] { return "'" + std::string(input.name) + "' for model '" + model_ + "'"; };
    if (auto slice = shared_slice(input.name, input.parameters, memory_)) {
      if (!input.contents.empty())
        invalid("unexpected 'content' provided when using shared memory for input tensor " + where());
      if (slice->broken) request_.memory_lost.push_back(slice->broken);
      return input_bytes(*slice, dtype);
    }
    if (!input.contents.empty()) {
      if (!message_.raw_input_contents.empty())
        invalid("contents field must not be specified when using raw_input_contents for " + where());
      auto bytes =
          std::make_shared<const std::string>(decode_tensor_contents(input.contents, dtype, input.name, model_));
      return {std::as_bytes(std::span(*bytes)), bytes};
    }
    if (raw_ == message_.raw_input_contents.size())
      invalid("unable to find data for input tensor " + where() + " in request.");
    const std::string_view raw = message_.raw_input_contents[raw_++];
    return {std::as_bytes(std::span(raw)), owner_};
  }

  const InferMessage& message_;
  const std::shared_ptr<const void>& owner_;
  const SharedMemory& memory_;
  Request& request_;
  std::string model_;
  size_t raw_ = 0;
};

RequestedOutput requested_output(const InferMessage::Output& output, const SharedMemory& memory, Request& request) {
  RequestedOutput requested;
  requested.name = output.name;
  if (auto slice = shared_slice(output.name, output.parameters, memory)) {
    if (slice->broken) request.memory_lost.push_back(slice->broken);
    requested.target = slice->span;
    requested.target_owner = std::move(slice->owner);
    requested.target_device = slice->device;
  }
  if (const auto* classes = find_parameter(output.parameters, "classification")) {
    if (!*classes || !std::holds_alternative<int64_t>(**classes))
      invalid("invalid value type for 'classification' parameter, expected int64_param");
    requested.classes = std::get<int64_t>(**classes);
    if (requested.classes <= 0) invalid("invalid value for 'classification' parameter, expected >= 0");
    if (requested.target) invalid("output can't set both 'shared_memory_region' and 'classification'");
  }
  return requested;
}

}  // namespace

bool reserved_parameter(std::string_view name) {
  static constexpr std::array<std::string_view, 7> names = {
      "sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"};
  return name.starts_with("triton_") || std::ranges::find(names, name) != names.end();
}

InferRequest make_infer_request(const InferMessage& message, const std::shared_ptr<const void>& owner,
                                const SharedMemory& memory) {
  InferRequest made;
  Request& request = made.request;
  request.model = message.model_name;
  request.version = message.model_version;
  request.id = message.id;
  for (const auto& [name, value] : message.parameters) request_parameter(name, value, made);

  InputReader reader(message, owner, memory, request);
  request.inputs.reserve(message.inputs.size());
  for (const InferMessage::Input& input : message.inputs) request.inputs.push_back(reader.read(input));
  reader.finish();
  request.outputs.reserve(message.outputs.size());
  for (const InferMessage::Output& output : message.outputs)
    request.outputs.push_back(requested_output(output, memory, request));
  return made;
}

}  // namespace camshaft::server
