// Answers in the form of OpenAI's interface.
#pragma once

#include <string>

#include "server/core/server.h"
#include "server/http/exchange.h"

namespace camshaft::server {

/// {"error": {"message", "type", "param", "code"}}; the last two are null where they are empty.
HttpReply openai_error(int status, const std::string& message, const std::string& param = "",
                       const std::string& code = "");
HttpReply openai_error(const Status& status);
/// An error of the server's own form in this one, with its status and headers.
HttpReply as_openai_error(HttpReply reply);

/// Whether a model answers calls of OpenAI's interface: it is of the backend "llm".
bool is_language_model(const Model& model);
/// The list of those that are loaded, and one of them.
HttpReply openai_models(Server& server);
HttpReply openai_model(Server& server, const std::string& name);
/// The model that a call names; without a name the only one there is. Null where the name is no model's: it may be an
/// adapter's. Throws ServerError(not_found) for other models, and where there is none or several.
std::shared_ptr<Model> loaded_language_model(Server& server, const std::optional<std::string>& name);
/// The same, or the model that has an adapter of that name. Throws ServerError(not_found) where none has. Waits for
/// models, which are asked for their adapters.
std::shared_ptr<Model> find_language_model(Server& server, const std::optional<std::string>& name);

}  // namespace camshaft::server
