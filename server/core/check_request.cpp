// The messages are worded as Triton's, which clients and their tests know.
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "server/core/data_type.h"
#include "server/core/pending.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, message);
}

size_t input_place(const Signature& signature, const std::string& name) {
  for (size_t i = 0; i < signature.inputs.size(); ++i)
    if (signature.inputs[i].name == name) return i;
  return signature.inputs.size();
}

void find_inputs(const Signature& signature, Pending& pending) {
  pending.inputs.assign(signature.input_count(), nullptr);
  size_t found = 0;
  for (const NamedTensor& tensor : pending.request.inputs) {
    const size_t place = input_place(signature, tensor.name);
    if (place == signature.inputs.size())
      refuse("unexpected inference input '" + tensor.name + "' for model '" + signature.model + "'");
    if (pending.inputs[place] != nullptr) refuse("input '" + tensor.name + "' already exists in request");
    pending.inputs[place] = &tensor;
    ++found;
  }
  if (found == signature.inputs.size()) return;
  std::string given, missing;
  for (const NamedTensor& tensor : pending.request.inputs)
    given.append(given.empty() ? "'" : ",'").append(tensor.name).append("'");
  for (size_t i = 0; i < signature.inputs.size(); ++i)
    if (pending.inputs[i] == nullptr && !signature.inputs[i].optional)
      missing.append(missing.empty() ? "'" : ",'").append(signature.inputs[i].name).append("'");
  if (missing.empty()) return;
  refuse("expected " + std::to_string(signature.inputs.size()) + " inputs but got " + std::to_string(found) +
         " inputs for model '" + signature.model + "'. Got input(s) [" + given + "], but missing required input(s) [" +
         missing + "]. Please provide all required input(s).");
}

void check_shape(const Signature& signature, const TensorSpec& spec, const NamedTensor& tensor, Pending& pending,
                 bool& has_batch) {
  const bool batched = signature.max_batch > 0;
  if (batched && tensor.shape.empty())
    refuse("input '" + tensor.name + "' has no shape but model requires batch dimension for '" + signature.model + "'");
  const size_t skip = batched ? 1 : 0;
  bool fits = tensor.shape.size() == spec.dims.size() + skip;
  for (size_t i = 0; fits && i < spec.dims.size(); ++i)
    fits = spec.dims[i] < 0 || spec.dims[i] == tensor.shape[i + skip];
  if (!fits) {
    Dims expected = spec.dims;
    if (batched) expected.insert(expected.begin(), -1);
    refuse("unexpected shape for input '" + tensor.name + "' for model '" + signature.model + "'. Expected " +
           shape_text(expected) + ", got " + shape_text(tensor.shape) + "." +
           (batched ? " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be "
                      "prepended to each input shape. If you want to specify the full shape including the batch dim "
                      "in your input dims config, try setting max_batch_size to zero."
                    : ""));
  }
  if (!batched) return;
  const int64_t batch = tensor.shape.front();
  if (has_batch && batch != pending.batch)
    refuse("input '" + tensor.name + "' batch size does not match other inputs for '" + signature.model + "'");
  pending.batch = batch;
  has_batch = true;
  if (batch < 1) refuse("input '" + tensor.name + "' for model '" + signature.model + "' has an empty batch");
  if (batch > signature.max_batch)
    refuse("inference request batch-size must be <= " + std::to_string(signature.max_batch) + " for '" +
           signature.model + "'");
}

// Strings: each element its length and then its bytes, and nothing behind the last.
void check_texts(const Signature& signature, const NamedTensor& tensor, int64_t count) {
  const std::span<const std::byte> data = tensor.data.span;
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t length = 0;
    if (data.size() - at < sizeof(length))
      refuse("expected " + std::to_string(count) + " strings for inference input '" + tensor.name + "' of model '" +
             signature.model + "', got " + std::to_string(i));
    std::memcpy(&length, data.data() + at, sizeof(length));
    at += sizeof(length);
    if (data.size() - at < length)
      refuse("incomplete string data for inference input '" + tensor.name + "' of model '" + signature.model +
             "': expecting a string of " + std::to_string(length) + " bytes, got " + std::to_string(data.size() - at));
    at += length;
  }
  if (at != data.size())
    refuse("unexpected number of string elements for inference input '" + tensor.name + "' of model '" +
           signature.model + "': expecting " + std::to_string(count) + ", " + std::to_string(data.size() - at) +
           " bytes follow");
}

void check_bytes(const Signature& signature, const NamedTensor& tensor) {
  const int64_t count = element_count(tensor.shape);
  if (tensor.dtype == DType::string) return check_texts(signature, tensor, count);
  const auto width = static_cast<int64_t>(byte_size(tensor.dtype, 1));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count, width, &bytes))
    refuse("the shape " + shape_text(tensor.shape) + " of input '" + tensor.name + "' has too many elements");
  if (static_cast<uint64_t>(bytes) != tensor.data.span.size())
    refuse("input byte size mismatch for input '" + tensor.name + "' for model '" + signature.model + "'. Expected " +
           std::to_string(bytes) + ", got " + std::to_string(tensor.data.span.size()));
}

void find_outputs(const Signature& signature, Pending& pending) {
  pending.outputs.clear();
  if (pending.request.outputs.empty()) {
    for (size_t i = 0; i < signature.outputs.size(); ++i) pending.outputs.push_back(i);
    return;
  }
  for (const RequestedOutput& wanted : pending.request.outputs) {
    size_t place = 0;
    while (place < signature.outputs.size() && signature.outputs[place].name != wanted.name) ++place;
    if (place == signature.outputs.size())
      refuse("unexpected inference output '" + wanted.name + "' for model '" + signature.model + "'");
    if (std::find(pending.outputs.begin(), pending.outputs.end(), place) != pending.outputs.end())
      refuse("output '" + wanted.name + "' already exists in request");
    pending.outputs.push_back(place);
  }
}

}  // namespace

void check_request(const Signature& signature, Pending& pending) {
  find_inputs(signature, pending);
  bool has_batch = false;
  const bool ragged =
      std::any_of(signature.inputs.begin(), signature.inputs.end(), [](const TensorSpec& spec) { return spec.ragged; });
  pending.ragged.assign(ragged ? signature.inputs.size() : 0, -1);
  uint64_t key = 0;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    if (pending.inputs[i] == nullptr) {
      key = key * 31 + 1;  // requests with and without an optional input are no batch
      continue;
    }
    const NamedTensor& tensor = *pending.inputs[i];
    const TensorSpec& spec = signature.inputs[i];
    if (tensor.dtype != spec.dtype)
      refuse("inference input '" + tensor.name + "' data-type is '" + std::string(protocol_name(tensor.dtype)) +
             "', but model '" + signature.model + "' expects '" + std::string(protocol_name(spec.dtype)) + "'");
    check_shape(signature, spec, tensor, pending, has_batch);
    check_bytes(signature, tensor);
    if (spec.ragged) {
      pending.ragged[i] = element_count(tensor.shape);
      continue;
    }
    const size_t skip = signature.max_batch > 0 ? 1 : 0;
    key = XXH3_64bits_withSeed(tensor.shape.data() + skip, (tensor.shape.size() - skip) * sizeof(int64_t), key);
  }
  pending.shape_key = key;
  find_outputs(signature, pending);
}

}  // namespace camshaft::server
