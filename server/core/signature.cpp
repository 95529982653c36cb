#include "server/core/signature.h"

#include <algorithm>

#include "server/core/data_type.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

Dims to_dims(const google::protobuf::RepeatedField<int64_t>& sizes) {
  return {sizes.begin(), sizes.end()};
}

// `from` and `to` have as many sizes that are not fixed, which stand for each other in their order.
Dims translate(const Dims& shape, const Dims& from, const Dims& to) {
  Dims variable;
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] < 0) variable.push_back(shape[i]);
  Dims result = to;
  size_t next = 0;
  for (int64_t& size : result)
    if (size < 0) size = variable.at(next++);
  return result;
}

void check_reshape(const std::string& model, const TensorSpec& spec) {
  const auto variable = [](const Dims& dims) { return std::count(dims.begin(), dims.end(), -1); };
  const auto fixed = [](const Dims& dims) {
    int64_t product = 1;
    for (const int64_t size : dims)
      if (size >= 0 && __builtin_mul_overflow(product, size, &product)) return int64_t{-1};
    return product;
  };
  if (variable(spec.dims) != variable(spec.model_dims) || fixed(spec.dims) != fixed(spec.model_dims))
    throw ServerError(StatusCode::invalid_argument, "model '" + model + "', tensor '" + spec.name + "': dims " +
                                                        shape_text(spec.dims) + " and reshape " +
                                                        shape_text(spec.model_dims) + " have different sizes");
}

template <class Tensor>
TensorSpec make_spec(const std::string& model, const Tensor& tensor) {
  TensorSpec spec;
  spec.name = tensor.name();
  spec.dtype = parse_config_type(inference::DataType_Name(tensor.data_type()));
  spec.dims = to_dims(tensor.dims());
  spec.reshaped = tensor.has_reshape();
  spec.model_dims = spec.reshaped ? to_dims(tensor.reshape().shape()) : spec.dims;
  if (spec.reshaped) check_reshape(model, spec);
  return spec;
}

TensorSpec make_plain(const std::string& name, inference::DataType type, const Dims& dims) {
  TensorSpec spec;
  spec.name = name;
  spec.dtype = parse_config_type(inference::DataType_Name(type));
  spec.dims = spec.model_dims = dims;
  return spec;
}

DType control_type(const inference::ModelSequenceBatching::Control& control) {
  if (control.kind() == inference::ModelSequenceBatching::Control::CONTROL_SEQUENCE_CORRID)
    return parse_config_type(inference::DataType_Name(control.data_type()));
  if (control.int32_false_true_size() > 0) return DType::i32;
  if (control.fp32_false_true_size() > 0) return DType::f32;
  return DType::boolean;
}

size_t place_of(const Signature& signature, const std::string& name, const char* field) {
  for (size_t place = 0; place < signature.inputs.size(); ++place)
    if (signature.inputs[place].name == name) return place;
  throw ServerError(StatusCode::invalid_argument,
                    "model '" + signature.model + "': " + field + " has unknown source input name '" + name + "'");
}

void add_ragged(const ModelConfig& config, Signature& signature) {
  for (const inference::BatchInput& input : config.batch_input()) {
    BatchInputSpec spec;
    spec.kind = input.kind();
    spec.source = place_of(signature, input.source_input(0), "batch_input");
    spec.dtype = parse_config_type(inference::DataType_Name(input.data_type()));
    spec.targets.assign(input.target_name().begin(), input.target_name().end());
    signature.batch_inputs.push_back(std::move(spec));
  }
  for (const inference::BatchOutput& output : config.batch_output())
    for (TensorSpec& spec : signature.outputs)
      if (std::find(output.target_name().begin(), output.target_name().end(), spec.name) != output.target_name().end())
        spec.scattered_by = place_of(signature, output.source_input(0), "batch_output");
}

}  // namespace

Signature make_signature(const ModelConfig& config) {
  Signature signature;
  signature.model = config.name();
  signature.max_batch = config.max_batch_size();
  for (const auto& input : config.input()) {
    signature.inputs.push_back(make_spec(config.name(), input));
    signature.inputs.back().optional = input.optional();
    signature.inputs.back().ragged = input.allow_ragged_batch();
  }
  for (const auto& output : config.output()) signature.outputs.push_back(make_spec(config.name(), output));
  for (const auto& control : config.sequence_batching().control_input()) {
    if (control.control_size() == 0) continue;
    TensorSpec spec;
    spec.name = control.name();
    spec.dtype = control_type(control.control(0));
    spec.dims = spec.model_dims = {1};
    signature.added.push_back(spec);
  }
  for (const auto& state : config.sequence_batching().state()) {
    const Dims dims = to_dims(state.dims());
    signature.added.push_back(make_plain(state.input_name(), state.data_type(), dims));
    signature.kept.push_back(make_plain(state.output_name(), state.data_type(), dims));
  }
  add_ragged(config, signature);
  return signature;
}

Dims model_shape(const TensorSpec& spec, const Dims& client_shape) {
  return spec.reshaped ? translate(client_shape, spec.dims, spec.model_dims) : client_shape;
}

Dims client_shape(const TensorSpec& spec, const Dims& model_shape) {
  return spec.reshaped && model_shape.size() == spec.model_dims.size()
             ? translate(model_shape, spec.model_dims, spec.dims)
             : model_shape;
}

}  // namespace camshaft::server
