#include "server/http/infer_request.h"

#include <charconv>

#include "server/core/data_type.h"
#include "server/core/text_tensor.h"

namespace camshaft::server {

namespace {

[[noreturn]] void refuse_request(const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, message);
}

template <class T>
T parameter_as(const std::string& name, const Parameter& value) {
  if (const T* held = std::get_if<T>(&value)) return *held;
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (const auto* number = std::get_if<int64_t>(&value); number != nullptr && *number >= 0)
      return static_cast<uint64_t>(*number);
  }
  refuse_request("Unable to parse '" + name + "': its value is of another type");
}

// Bytes that are kept by a vector.
Bytes kept(std::vector<std::byte> data) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(data));
  return {*owner, owner};
}

Bytes shared_input(const InferDocument::Input& input, const SharedMemory& memory, Request& request) {
  const SharedMemory::Slice slice = memory.slice(input.shared->region, input.shared->offset, input.shared->byte_size);
  if (slice.broken) request.memory_lost.push_back(slice.broken);
  return input_bytes(slice, *input.dtype);
}

void decode_inputs(InferDocument& document, const Bytes& tail, bool has_length, const SharedMemory& memory,
                   Request& request) {
  size_t at = 0;
  for (InferDocument::Input& input : document.inputs) {
    NamedTensor& tensor = request.inputs.emplace_back();
    tensor.name = std::move(input.name);
    tensor.dtype = *input.dtype;
    tensor.shape = std::move(*input.shape);
    element_count(tensor.shape);
    if (input.data) {
      tensor.data = kept(std::move(*input.data));
    } else if (input.shared) {
      tensor.data = shared_input(input, memory, request);
    } else {
      if (*input.binary_size > 0 && !has_length)
        refuse_request(
            "must specify valid 'Inference-Header-Content-Length' in request header and 'binary_data_size' when "
            "passing inputs in binary data format: input '" +
            tensor.name + "'");
      if (*input.binary_size > tail.span.size() - at)
        refuse_request("unexpected size for input '" + tensor.name + "', expecting " +
                       std::to_string(*input.binary_size - (tail.span.size() - at)) + " additional bytes for model '" +
                       request.model + "'");
      tensor.data = {tail.span.subspan(at, *input.binary_size), tail.owner};
      at += *input.binary_size;
    }
  }
  if (at != tail.span.size())
    refuse_request("unexpected additional input data for model '" + request.model +
                   "': " + std::to_string(tail.span.size() - at) + " bytes behind the last tensor");
}

void decode_outputs(InferDocument& document, const SharedMemory& memory, Request& request, ResponseForm& form) {
  for (InferDocument::Output& output : document.outputs) {
    RequestedOutput& requested = request.outputs.emplace_back();
    requested.classes = output.classes;
    if (output.binary) form.binary.insert(output.name);
    if (output.shared) {
      const SharedMemory::Slice slice =
          memory.slice(output.shared->region, output.shared->offset, output.shared->byte_size);
      if (slice.broken) request.memory_lost.push_back(slice.broken);
      requested.target = slice.span;
      requested.target_owner = slice.owner;
      requested.target_device = slice.device;
      form.shared.insert(output.name);
    }
    requested.name = std::move(output.name);
  }
}

}  // namespace

std::optional<uint64_t> document_length(std::string_view header) {
  if (header.empty()) return std::nullopt;
  uint64_t length = 0;
  const auto read = std::from_chars(header.data(), header.data() + header.size(), length);
  if (read.ec != std::errc() || read.ptr != header.data() + header.size())
    refuse_request("Unable to parse 'Inference-Header-Content-Length', got: " + std::string(header.substr(0, 64)));
  return length;
}

void take_parameters(Parameters parameters, Request& request, ResponseForm& form) {
  for (auto& [name, value] : parameters) {
    if (name == "sequence_id") {
      if (const auto* text = std::get_if<std::string>(&value))
        request.sequence.text = *text;
      else
        request.sequence.number = parameter_as<uint64_t>(name, value);
    } else if (name == "sequence_start") {
      request.sequence_start = parameter_as<bool>(name, value);
    } else if (name == "sequence_end") {
      request.sequence_end = parameter_as<bool>(name, value);
    } else if (name == "priority") {
      request.priority = parameter_as<uint64_t>(name, value);
    } else if (name == "timeout") {
      request.timeout_us = parameter_as<uint64_t>(name, value);
    } else if (name == "binary_data_output") {
      form.all_binary = parameter_as<bool>(name, value);
    } else if (name.starts_with("triton_")) {
      refuse_request(
          "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified: '" + name +
          "'");
    } else {
      request.parameters.emplace(name, std::move(value));
    }
  }
}

void decode_request(const Bytes& body, std::optional<uint64_t> length, const SharedMemory& memory, uint64_t limit,
                    Request& request, ResponseForm& form) {
  if (length && *length > body.span.size())
    refuse_request("'Inference-Header-Content-Length' is " + std::to_string(*length) + ", but the body has " +
                   std::to_string(body.span.size()) + " bytes");
  const size_t json_size = length.value_or(body.span.size());
  const std::string_view json(reinterpret_cast<const char*>(body.span.data()), json_size);
  InferDocument document = parse_infer_document(json, limit);
  request.id = std::move(document.id);
  take_parameters(std::move(document.parameters), request, form);
  decode_inputs(document, {body.span.subspan(json_size), body.owner}, length.has_value(), memory, request);
  decode_outputs(document, memory, request, form);
  // It speaks of requests that name no outputs.
  if (!request.outputs.empty()) form.all_binary = false;
}

void decode_raw_request(const Bytes& body, const ModelConfig& config, Request& request, ResponseForm& form) {
  if (config.input_size() != 1)
    refuse_request("a raw binary request is for models with one input, and '" + config.name() + "' has " +
                   std::to_string(config.input_size()));
  const auto& input = config.input(0);
  NamedTensor& tensor = request.inputs.emplace_back();
  tensor.name = input.name();
  tensor.dtype = parse_config_type(inference::DataType_Name(input.data_type()));
  if (config.max_batch_size() > 0) tensor.shape.push_back(1);
  form.all_binary = true;
  tensor.shape.insert(tensor.shape.end(), input.dims().begin(), input.dims().end());
  size_t unknown = tensor.shape.size();
  int64_t known = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] >= 0) {
      if (__builtin_mul_overflow(known, tensor.shape[i], &known))
        refuse_request("the shape of '" + tensor.name + "' is too large");
      continue;
    }
    if (unknown != tensor.shape.size())
      refuse_request("the shape of raw input '" + tensor.name + "' cannot be told: two of its sizes are not known in " +
                     shape_text(tensor.shape));
    unknown = i;
  }
  if (tensor.dtype == DType::string) {
    if (unknown != tensor.shape.size()) tensor.shape[unknown] = 1;
    if (known != 1)
      refuse_request("a raw binary request has one string, and '" + tensor.name + "' has " + std::to_string(known));
    tensor.data = write_text({reinterpret_cast<const char*>(body.span.data()), body.span.size()});
    return;
  }
  if (unknown != tensor.shape.size()) {
    const auto row = static_cast<uint64_t>(known) * byte_size(tensor.dtype, 1);
    if (row == 0 || body.span.size() % row != 0)
      refuse_request("raw input '" + tensor.name + "' has " + std::to_string(body.span.size()) +
                     " bytes, which is no multiple of " + std::to_string(row));
    tensor.shape[unknown] = static_cast<int64_t>(body.span.size() / row);
  }
  tensor.data = body;
}

}  // namespace camshaft::server
