// The request of generate: an object whose members are inputs or parameters, by their names.
#pragma once

#include <string_view>

#include "server/core/model_config.h"
#include "server/core/request.h"

namespace camshaft::server {

/// Members that have an input's name are its elements, one or a list: sizes of its shape that are fixed are taken
/// first, the innermost of the others is what is left, and the rest 1. Other members, and those of "parameters", are
/// parameters. Throws ServerError(invalid_argument).
void decode_generate(std::string_view json, const ModelConfig& config, uint64_t limit, Request& request);

}  // namespace camshaft::server
