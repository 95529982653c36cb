#include "server/core/sequence_tensors.h"

#include <cstring>
#include <fstream>
#include <limits>

#include "server/core/data_type.h"
#include "server/core/engine_backend.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

using Control = inference::ModelSequenceBatching::Control;

template <class T>
Bytes bytes_of_value(T value) {
  auto held = std::make_shared<T>(value);
  return {std::as_bytes(std::span(held.get(), 1)), held};
}

Bytes bytes_of_text(const std::string& text) {
  auto held = std::make_shared<std::string>();
  const auto length = static_cast<uint32_t>(text.size());
  held->append(reinterpret_cast<const char*>(&length), sizeof(length)).append(text);
  return {std::as_bytes(std::span(*held)), held};
}

Bytes truth(const Control& control, bool value) {
  const int at = value ? 1 : 0;
  if (control.int32_false_true_size() == 2) return bytes_of_value<int32_t>(control.int32_false_true(at));
  if (control.fp32_false_true_size() == 2) return bytes_of_value<float>(control.fp32_false_true(at));
  return bytes_of_value<uint8_t>(control.bool_false_true(at) ? 1 : 0);
}

Bytes identity(DType dtype, const SequenceId& id) {
  if (dtype == DType::string) return bytes_of_text(id.text.empty() ? std::to_string(id.number) : id.text);
  if (!id.text.empty())
    throw ServerError(StatusCode::invalid_argument,
                      "the model takes correlation IDs as numbers, the request has the text '" + id.text + "'");
  switch (dtype) {
    case DType::u64:
      return bytes_of_value(id.number);
    case DType::i64:
      return bytes_of_value(static_cast<int64_t>(id.number));
    case DType::u32:
      return bytes_of_value(static_cast<uint32_t>(id.number));
    default:
      return bytes_of_value(static_cast<int32_t>(id.number));
  }
}

uint64_t largest_identity(DType dtype) {
  switch (dtype) {
    case DType::i64:
      return std::numeric_limits<int64_t>::max();
    case DType::u32:
      return std::numeric_limits<uint32_t>::max();
    case DType::i32:
      return std::numeric_limits<int32_t>::max();
    default:
      return std::numeric_limits<uint64_t>::max();
  }
}

NamedTensor initial_state(const ModelConfig& config, const inference::ModelSequenceBatching::State& state,
                          const std::filesystem::path& folder) {
  NamedTensor tensor;
  tensor.name = state.input_name();
  tensor.dtype = parse_config_type(inference::DataType_Name(state.data_type()));
  tensor.shape.assign(state.dims().begin(), state.dims().end());
  std::string file;
  if (state.initial_state_size() > 0) {
    const auto& initial = state.initial_state(0);
    if (initial.dims_size() > 0) tensor.shape.assign(initial.dims().begin(), initial.dims().end());
    file = initial.data_file();
  }
  for (int64_t& size : tensor.shape) size = size < 0 ? 1 : size;
  if (config.max_batch_size() > 0) tensor.shape.insert(tensor.shape.begin(), 1);
  const auto count = element_count(tensor.shape);
  const size_t bytes =
      tensor.dtype == DType::string ? static_cast<size_t>(count) * sizeof(uint32_t) : byte_size(tensor.dtype, count);
  auto held = std::make_shared<std::vector<std::byte>>(bytes);
  if (!file.empty()) {
    std::ifstream in(file_in(folder / "initial_state", file, config.name()), std::ios::binary | std::ios::ate);
    const auto size = static_cast<size_t>(in.tellg());
    if (tensor.dtype != DType::string && size != bytes)
      throw ServerError(StatusCode::invalid_argument, "model '" + config.name() + "': the initial state '" + file +
                                                          "' has " + std::to_string(size) + " bytes, '" + tensor.name +
                                                          "' needs " + std::to_string(bytes));
    held->resize(size);
    in.seekg(0);
    in.read(reinterpret_cast<char*>(held->data()), static_cast<std::streamsize>(size));
  }
  tensor.data = {*held, held};
  return tensor;
}

}  // namespace

SequenceTensors::SequenceTensors(const ModelConfig& config, const Signature& signature,
                                 const std::filesystem::path& folder)
    : first_(signature.inputs.size()), batched_(config.max_batch_size() > 0) {
  for (const auto& input : config.sequence_batching().control_input()) {
    if (input.control_size() == 0) continue;
    specs_.push_back(signature.added[controls_.size()]);
    controls_.push_back(input.control(0));
  }
  for (const auto& state : config.sequence_batching().state()) initial_.push_back(initial_state(config, state, folder));
}

NamedTensor SequenceTensors::control(size_t index, const Pending& pending, bool start, bool end) const {
  const Control& control = controls_[index];
  NamedTensor tensor{specs_[index].name, specs_[index].dtype, {1}, {}};
  if (batched_) tensor.shape = {1, 1};
  switch (control.kind()) {
    case Control::CONTROL_SEQUENCE_START:
      tensor.data = truth(control, start);
      break;
    case Control::CONTROL_SEQUENCE_END:
      tensor.data = truth(control, end);
      break;
    case Control::CONTROL_SEQUENCE_CORRID:
      if (pending.request.sequence.number > largest_identity(tensor.dtype))
        throw ServerError(StatusCode::invalid_argument,
                          "the correlation ID " + std::to_string(pending.request.sequence.number) +
                              " is too large for the model's input '" + tensor.name + "'");
      tensor.data = identity(tensor.dtype, pending.request.sequence);
      break;
    default:
      tensor.data = truth(control, true);  // a batch has no rows without a request
  }
  return tensor;
}

void SequenceTensors::add(Pending& pending, bool start, bool end, const std::vector<NamedTensor>& states) const {
  pending.added.clear();
  for (size_t i = 0; i < controls_.size(); ++i) pending.added.push_back(control(i, pending, start, end));
  pending.added.insert(pending.added.end(), states.begin(), states.end());
  for (size_t i = 0; i < pending.added.size(); ++i) pending.inputs[first_ + i] = &pending.added[i];
}

}  // namespace camshaft::server
