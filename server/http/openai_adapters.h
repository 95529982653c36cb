// What language models say of themselves, and of the adapters that calls may name as if they were models.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "server/core/server.h"

namespace camshaft::server {

/// The entries of /v1/models of a language model: its own, and one for each of its adapters, whose "parent" it is.
/// Waits for the model; nothing where it does not answer in time, and an empty list where it has no adapters.
std::optional<nlohmann::ordered_json> models_of(Server& server, const Model& model);

/// The language model that has an adapter of that name; null where none has. Throws ServerError(unavailable) where none
/// has, and one does not answer.
std::shared_ptr<Model> model_with_adapter(Server& server, const std::string& name);

}  // namespace camshaft::server
