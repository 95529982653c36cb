// Routes that speak of models: what they are, how they did, and whether they are loaded.
#pragma once

#include <string_view>

#include "server/core/server.h"
#include "server/http/exchange.h"
#include "server/http/route.h"

namespace camshaft::server {

/// Each throws ServerError for what the client is to read as an error.
HttpReply model_ready(Server& server, const Route& route);
HttpReply model_metadata(Server& server, const Route& route);
HttpReply model_configuration(Server& server, const Route& route);
/// Of one version, of all versions of a model, or of all models.
HttpReply model_statistics(Server& server, const Route& route);
HttpReply repository_index(Server& server, const Route& route, std::string_view body);
HttpReply load_model(Server& server, const Route& route, std::string_view body);
HttpReply unload_model(Server& server, const Route& route, std::string_view body);

}  // namespace camshaft::server
