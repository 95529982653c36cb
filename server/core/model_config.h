// config.pbtxt: what a model is and how its requests are scheduled.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "model_config.pb.h"

namespace camshaft::server {

/// Field names and numbers are those of Triton's model configuration: see proto/model_config.proto.
using ModelConfig = inference::ModelConfig;

/// Reads a file in protobuf's text form. Throws ServerError(invalid_argument) that names file, line and field.
ModelConfig read_model_config(const std::filesystem::path& file);
/// The same of its text; messages say that it is of `place`.
ModelConfig parse_model_config_text(std::string_view text, const std::string& place);
/// The same of JSON, as clients send it when they load a model.
ModelConfig parse_model_config_json(const std::string& json);
/// As clients read it: the protocol's JSON, with the names of the fields, with all that are not set, and with integers
/// of 64 bits as numbers.
std::string model_config_json(const ModelConfig& config);
/// Throws ServerError(invalid_argument) for what contradicts itself or is out of range, naming the field.
void check_model_config(const ModelConfig& config);

}  // namespace camshaft::server
